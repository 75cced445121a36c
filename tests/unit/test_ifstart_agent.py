"""The ifstart mechanism for real on this host: two agents, loopback between them."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.deadline import Deadline
from lab.guest.agent_client import (
    AGENT_MARGIN_S,
    AgentClient,
    AgentError,
    Result,
    RunningWorkload,
)
from lab.guest.agent_file import agent_bytes
from lab.guest.workloads import GivenWorkload
from tests.unit.test_agent import ProcessChannel

SHORT: dict[str, Any] = {
    "runtime_s": 0.6,
    "bin_s": 0.1,
    "warmup_s": 0.1,
    "null_s": 0.05,
    "bulk_senders": 2,
}


class Ends:
    """An agent for each end."""

    def __init__(self, here: ProcessChannel, there: ProcessChannel) -> None:
        self.there_channel = there
        self.here, self.there = AgentClient(here, "client"), AgentClient(there, "server")

    @contextmanager
    def serving(self) -> Iterator[RunningWorkload]:
        given = GivenWorkload("ifstart-server", {"address": "127.0.0.1"})
        with self.there.start(given, deadline=Deadline(20)) as listening:
            yield listening

    def ask(self, port: int, *, deadline_s: float = 30, **given: Any) -> Result:
        complete = {"address": "127.0.0.1", "port": port, **SHORT, **given}
        return self.here.run(GivenWorkload("ifstart", complete), deadline=Deadline(deadline_s))

    def run(self, **given: Any) -> Result:
        with self.serving() as listening:
            result = self.ask(listening.port, **given)
            server = listening.stop(Deadline(10))
        if given.get("op") != "null":
            assert server and server["order_violations"].value == 0
        return result


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    path = tmp_path / "datapath-agent"
    path.write_bytes(agent_bytes())
    with ExitStack() as stack:
        channels = []
        for _ in range(2):
            channel = ProcessChannel([sys.executable, "-IS", str(path), "serve"], str(tmp_path))
            stack.callback(channel.process.wait, 5)
            stack.callback(channel.close)
            channels.append(channel)
        yield Ends(*channels)


def counted(result: Result) -> dict[str, float]:
    assert result.mechanism
    assert not result.partial
    return dict(result.mechanism.counters)


def test_block_has_every_caller_wait_and_no_taskqueue(ends: Ends) -> None:
    result = ends.run(preset="before", line_rate_mbps=1_000_000)
    counters = counted(result)
    assert counters["direct"] > 0
    assert counters["task_runs"] == counters["deferred_big"] == 0
    assert counters["order_violations"] == 0
    assert counters["received_frames"] > 100
    assert counters["control_runs"] > 0
    assert len(result.samples["received_bytes_a_bin"]) in (5, 6)
    assert len(result.samples["sent_bytes_a_bin"]) == 6
    assert result["low_bins"].value == 1.0
    assert 0 < result["of_line"].value < 1
    assert result.fidelity == "model"
    assert result.mechanism and result.mechanism.harness.runs == 3
    assert result.mechanism.histograms["small_start"]["unit"] == "ns"


def test_trylock_hands_large_frames_over(ends: Ends) -> None:
    counters = counted(ends.run(preset="after"))
    assert counters["by_task"] > counters["direct"]
    assert counters["task_runs"] > 0
    assert counters["deferred_big"] + counters["contended"] > 0
    assert counters["order_violations"] == 0


def test_sched_all_sends_nothing_itself(ends: Ends) -> None:
    counters = counted(ends.run(preset="later", taskq_threads=2, taskq_enqueue="each"))
    assert counters["direct"] == 0
    assert counters["by_task"] > 0
    assert counters["task_coalesced"] == 0
    assert counters["order_violations"] == 0


def test_small_frames_alone_go_directly(ends: Ends) -> None:
    """The control: nothing large, nobody to wait for."""
    given = {"bulk_senders": 0, "small_senders": 1, "control_every_ms": 0}
    counters = counted(ends.run(preset="after", **given))
    assert counters["direct_share"] > 0.9
    assert counters["deferred_big"] == 0


@pytest.mark.parametrize("given", [{"lock_kind": "spin"}, {"concurrency": "threads"}])
def test_other_ways_to_wait_and_to_run_keep_order_too(ends: Ends, given: dict[str, Any]) -> None:
    counters = counted(ends.run(preset="before", **given))
    assert counters["order_violations"] == 0
    assert counters["received_frames"] > 100


def test_a_null_run_needs_no_peer(ends: Ends) -> None:
    counters = counted(ends.run(preset="after", op="null"))
    assert counters["by_task"] > 0
    assert counters["no_txdescs"] == 0
    assert "order_violations" not in counters


def test_a_run_cut_short_tells_what_it_measured(ends: Ends) -> None:
    with ends.serving() as listening, pytest.raises(AgentError) as caught:
        ends.ask(listening.port, runtime_s=60.0, deadline_s=AGENT_MARGIN_S + 2)
    result = caught.value.partial
    assert caught.value.kind == "deadline"
    assert result and result.partial
    assert result["throughput"].value > 0
    assert 3 < len(result.samples["sent_bytes_a_bin"]) < 60


def test_a_peer_that_dies_leaves_what_was_measured(ends: Ends) -> None:
    def kill() -> None:
        for process in ends.there_channel.tree():
            process.kill()

    with contextlib.suppress(AgentError), ends.serving() as listening:
        death = threading.Timer(2, kill)
        death.start()
        with pytest.raises(AgentError) as caught:
            ends.ask(listening.port, runtime_s=20.0)
        death.join()
    assert caught.value.kind == "peer-gone"
    partial = caught.value.partial
    assert partial and partial.partial and partial["throughput"].value > 0
    assert 3 < len(partial.samples["sent_bytes_a_bin"]) < 40
    assert partial.mechanism and partial.mechanism.name == "ifstart"


def test_nobody_listening_is_said(ends: Ends) -> None:
    with pytest.raises(AgentError) as caught:
        ends.ask(1)
    assert caught.value.kind == "no-answer"
