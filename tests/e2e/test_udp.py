"""The udp mechanism in guests: its counters show which way sends and receives went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.errors import InputError
from lab.guest.agent_client import AgentError, Result
from lab.pytest_plugin import LabFactory
from lab.running import RunningLab
from lab.workload import run_workload as run_on
from tests.e2e.support import lab_command

SHORT = {"runtime_s": 1.0, "idle_s": 0.0, "null_s": 0.05}
FORTY = {"connections": 40, "in_flight": 20, **SHORT}

RunWorkload = Callable[..., Result]


@pytest.fixture(scope="module")
def two_vcpus(lab_factory: LabFactory, topologies: Path) -> RunningLab:
    return lab_factory(topologies / "vioscsi-matrix.yaml")


def counters(result: Result) -> dict[str, Any]:
    assert result.mechanism
    return dict(result.mechanism.counters)


@pytest.mark.parametrize("peer", ["client", "server"])
def test_main_queues_and_latest_does_not(
    lab: RunningLab, run_workload: RunWorkload, peer: str
) -> None:
    """Inside one guest, and across two."""
    counted = {}
    for preset in ("main", "latest"):
        given = {"preset": preset, **FORTY}
        result = run_workload("udp", given, peer=peer, deadline=lab.scaled(30))
        assert len(result.samples["latency_us"]) > 20
        assert result["lost"].value == 0
        assert result.mechanism and result.mechanism.lines[0].startswith("Result: ")
        counted[preset] = counters(result)
    for end in ("", "server_"):
        assert counted["main"][f"{end}sends_queued_per_request"] >= 1
        assert counted["latest"][f"{end}sends_queued"] == 0
        assert counted["main"][f"{end}recv_inline"] == 0
    assert (
        counted["latest"]["epoll_wakeups_per_request"]
        < counted["main"]["epoll_wakeups_per_request"]
    )


@pytest.mark.parametrize(("response_bytes", "datagrams"), [(0, 1), (512, 1), (16384, 12)])
def test_answers_come_in_datagrams_of_the_path(
    lab: RunningLab, run_workload: RunWorkload, response_bytes: int, datagrams: int
) -> None:
    given = {"response_bytes": response_bytes, **SHORT}
    result = run_workload("udp", given, peer="server", deadline=lab.scaled(30))
    counted = counters(result)
    assert result["lost"].value == 0
    answered = len(result.samples["latency_us"])
    # Besides: one answer when the connection is opened, and one that the end cuts off.
    assert 0 <= counted["server_sends_inline"] - answered * datagrams <= 1 + datagrams


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"profile": "maxtput", "send": "queue_datapath"}, "workers"),
        ({"workers": 2, "connections": 2, "in_flight": 2}, "workers"),
    ],
)
def test_one_vcpu_is_no_place_for_two_busy_processes(
    lab: RunningLab, run_workload: RunWorkload, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(AgentError, match="CPUs") as caught:
        run_workload("udp", {**given, **SHORT}, peer="server", deadline=lab.scaled(30))
    assert (caught.value.kind, caught.value.field) == ("inexpressible", f"parameters.{field}")


def test_bad_input_needs_no_guest(lab: RunningLab, run_workload: RunWorkload) -> None:
    for given, words in (
        ({"send": "sideways"}, "send: is one of"),
        ({"send": "queue_datapath"}, "only profile=maxtput"),
        ({"in_flight": 0}, "in_flight: is at least"),
    ):
        with pytest.raises(InputError, match=words):
            run_workload("udp", given, deadline=lab.scaled(30))


def test_the_command_shows_both_presets(lab: RunningLab) -> None:
    done = lab_command(
        "run", "udp", "--lab", lab.record.identity.name, "--preset", "main", "--preset", "latest",
        "runtime_s=0.5", "idle_s=0", "null_s=0.05",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("sends_queued_per_request", "fidelity model", "Result: ", "Run 1: "):
        assert words in done.stdout


@pytest.mark.parametrize("mode", ["rps", "bulk"])
def test_two_vcpus_split_protocol_and_datapath(two_vcpus: RunningLab, mode: str) -> None:
    given = {"profile": "maxtput", "send": "queue_datapath", "mode": mode, **SHORT}
    counted = counters(run_on(two_vcpus, "udp", given, deadline=two_vcpus.scaled(30)))
    for end in ("", "server_"):
        assert counted[f"{end}sends_queued"] > 0
        assert (counted[f"{end}sends_inline"], counted[f"{end}ring_full"]) == (0, 0)


def test_real_time_workers_share_the_connections(two_vcpus: RunningLab) -> None:
    given = {"profile": "realtime", "workers": 2, "connections": 8, "in_flight": 4, **SHORT}
    result = run_on(two_vcpus, "udp", given, deadline=two_vcpus.scaled(30))
    assert len(result.samples["latency_us"]) > 20
    assert result["lost"].value == 0
