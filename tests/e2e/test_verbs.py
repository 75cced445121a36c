"""The verbs mechanism in a guest with two processors and soft-RoCE; rping between two guests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.deadline import Deadline
from lab.errors import Exit
from lab.guest.agent_client import AgentError, Result
from lab.guest.workloads import RpingClient, RpingServer
from lab.running import RunningGuest, RunningLab
from lab.workload import run_workload

QPS = 200


@pytest.fixture(scope="module")
def verbs_lab(lab_factory: Callable[[Path], RunningLab], topologies: Path) -> RunningLab:
    return lab_factory(topologies / "winverbs-qp-modify.yaml")


def run(lab: RunningLab, **given: Any) -> Result:
    complete = {"qps": QPS, "null_s": 0.05, "sample_every": 2, **given}
    return run_workload(lab, "verbs", complete, deadline=Deadline(120))


@pytest.mark.parametrize("preset", ["sync_sync", "sync_workitem", "async_sync", "async_workitem"])
def test_every_pair_ends_in_the_error_state_by_way_of_the_others(
    verbs_lab: RunningLab, preset: str
) -> None:
    result = run(verbs_lab, preset=preset)
    assert result.fidelity == "emulated"
    assert result.mechanism
    counters = result.mechanism.counters
    assert result["failures"].value == 0
    assert counters["checked_final_states"] == QPS
    assert counters["modifies"] == 4 * QPS
    assert {name: len(samples) for name, samples in result.samples.items()} == {
        f"{name}_ns": QPS // 2 for name in ("init", "rtr", "rts", "err")
    }
    is_overlapped = preset == "async_workitem"
    assert (counters["overlapped_modifies"] > 0) == is_overlapped
    assert counters["most_under_way"] == (2 if is_overlapped else 1)
    assert counters["workers"] == (2 if preset.endswith("workitem") else 0)


def test_pairs_made_in_the_loop_are_checked_before_they_go(verbs_lab: RunningLab) -> None:
    result = run(verbs_lab, preset="async_workitem", create="in_loop", procs=2, qps=80)
    assert result.mechanism
    assert result["failures"].value == 0
    assert result.mechanism.counters["checked_final_states"] == 160
    left = verbs_lab.guest("verbs").host.check_output("rdma resource show qp type RC | wc -l")
    assert int(left) == 0


@pytest.mark.parametrize("user", ["sync", "async"])
def test_the_kernel_s_own_workers_take_every_pair_through_its_states(
    verbs_lab: RunningLab, user: str
) -> None:
    result = run(verbs_lab, user=user, kernel="io_wq")
    assert result["failures"].value == 0
    assert result.mechanism
    assert result.mechanism.counters["checked_final_states"] == QPS
    assert "first in first out" in result.mechanism.layer


def test_pyverbs_own_calls_do_the_same_but_cannot_overlap(verbs_lab: RunningLab) -> None:
    result = run(verbs_lab, preset="sync_sync", call="pyverbs")
    assert result["failures"].value == 0
    assert result.mechanism
    assert "holds the GIL" in result.mechanism.layer


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"device": "rxe7"}, "bad-parameter", "this guest has rxe0"),
        ({"gid_address": "10.1.2.3"}, "bad-parameter", "0 RoCE v2 GIDs for 10.1.2.3"),
        ({"qps": 40_000}, "refused", "more than the"),
    ],
)
def test_what_this_guest_cannot_do_is_refused_with_the_reason(
    verbs_lab: RunningLab, given: dict[str, Any], kind: str, words: str
) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        run(verbs_lab, **given)
    assert caught.value.kind == kind
    assert caught.value.exit_code == Exit.BAD_INPUT


def test_rping_connects_two_guests_and_validates(
    client: RunningGuest, server: RunningGuest
) -> None:
    address = str(server.addresses["lan0"])
    deadline = Deadline(120)
    with (
        server.agent() as there,
        client.agent() as here,
        there.start(RpingServer(address=address, message_bytes=256), deadline=deadline) as end,
    ):
        workload = RpingClient(address=address, port=end.port, pings=20, message_bytes=256)
        result = here.run(workload, deadline=deadline)
    assert result["pings"].value == 20
    assert result["pings_per_s_with_setup"].value > 0
    assert "-V" in result.command


def test_rping_without_a_server_is_an_error(client: RunningGuest, server: RunningGuest) -> None:
    address = str(server.addresses["lan0"])
    with client.agent() as here, pytest.raises(AgentError, match="rping"):
        here.run(RpingClient(address=address, port=9), deadline=Deadline(60))
