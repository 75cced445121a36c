"""The ifstart mechanism between two guests: what it counts, and that a NIC is as it was."""

from __future__ import annotations

from typing import Any

import pytest

from lab.deadline import Deadline
from lab.errors import InputError
from lab.guest.agent_client import AgentError, Result
from lab.running import RunningGuest, RunningLab
from lab.workload import run_workload

RUN_S = 90
SHORT: dict[str, Any] = {"runtime_s": 2.0, "bin_s": 0.5, "warmup_s": 0.5, "null_s": 0.05}


def run(lab: RunningLab, peer: str = "server", **given: Any) -> Result:
    return run_workload(
        lab, "ifstart", {**SHORT, **given}, guest="client", peer=peer, deadline=Deadline(RUN_S)
    )


def counters(result: Result) -> dict[str, float]:
    assert result.mechanism
    assert result.fidelity == "model"
    assert not result.partial
    return dict(result.mechanism.counters)


def offloads(guest: RunningGuest) -> str:
    shown = guest.host.check_output("ethtool -k lan0")
    return "\n".join(line for line in shown.splitlines() if "segmentation" in line)


def test_before_no_frame_leaves_by_the_taskqueue(lab: RunningLab) -> None:
    counted = counters(run(lab, preset="before"))
    assert counted["task_runs"] == counted["by_task"] == 0
    assert counted["direct"] > 0
    assert counted["order_violations"] == counted["server_order_violations"] == 0
    assert counted["server_frames"] == counted["received_frames"] > 10


def test_after_callers_leave_large_frames_to_the_task(lab: RunningLab) -> None:
    counted = counters(run(lab, preset="after"))
    assert counted["by_task"] > counted["direct"]
    assert counted["deferred_big"] + counted["contended"] > 0
    assert counted["order_violations"] == 0


def test_both_ends_fit_into_one_guest(lab: RunningLab) -> None:
    counted = counters(run(lab, peer="client", preset="later"))
    assert counted["direct"] == 0
    assert counted["order_violations"] == 0


def test_offload_is_off_for_the_run_and_back_after_it(
    lab: RunningLab, client: RunningGuest
) -> None:
    before = offloads(client)
    result = run(lab, preset="after", tso="off")
    assert result.mechanism
    assert "ethtool -K lan0 tso off gso off" in result.mechanism.lines
    assert offloads(client) == before
    with pytest.raises(AgentError) as caught:  # stopped by its deadline, in the middle
        run_workload(
            lab,
            "ifstart",
            {**SHORT, "preset": "after", "tso": "off", "runtime_s": 60.0},
            guest="client",
            peer="server",
            deadline=Deadline(16),
        )
    assert caught.value.kind == "deadline"
    assert caught.value.partial
    assert offloads(client) == before


def test_what_cannot_show_the_mechanism_is_refused_here(lab: RunningLab) -> None:
    with pytest.raises(InputError, match="direct_tx_size"):
        run(lab, preset="before", direct_tx_size=128)
