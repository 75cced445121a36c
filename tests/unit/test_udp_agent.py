"""The udp mechanism for real on this host: two agents, loopback between them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.deadline import Deadline
from lab.guest.agent_client import AgentClient, AgentError, Result, RunningWorkload
from lab.guest.agent_file import agent_bytes
from lab.guest.workloads import GivenWorkload
from tests.unit.test_agent import ProcessChannel

SHORT = {"runtime_s": 0.3, "idle_s": 0.0, "null_s": 0.05}
LOAD = {"connections": 8, "in_flight": 6, **SHORT}
OF_SERVER = {"preset", "send", "recv", "route", "profile", "workers", "inline_max", "pin"}

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one CPU cannot hold two busy processes"
)


class Agents:
    """An agent for each end."""

    def __init__(self, client: ProcessChannel, server: ProcessChannel) -> None:
        self.client_channel, self.server_channel = client, server
        self.client = AgentClient(client, "client")
        self.server = AgentClient(server, "server")

    @contextmanager
    def serving(self, given: Mapping[str, Any]) -> Iterator[RunningWorkload]:
        shared = {name: value for name, value in given.items() if name in OF_SERVER}
        workload = GivenWorkload("udp-server", {**shared, "address": "127.0.0.1"})
        with self.server.start(workload, deadline=Deadline(20)) as listening:
            yield listening

    def ask(self, given: Mapping[str, Any], port: int) -> Result:
        complete = {"address": "127.0.0.1", "port": port, **given}
        return self.client.run(GivenWorkload("udp", complete), deadline=Deadline(30))

    def run(self, **given: Any) -> tuple[Result, Result]:
        """What both ends tell of one run."""
        with self.serving(given) as listening:
            result = self.ask(given, listening.port)
            server = listening.stop(Deadline(10))
        assert server
        return result, server


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    path = tmp_path / "datapath-agent"
    path.write_bytes(agent_bytes())
    with ExitStack() as stack:
        channels = []
        for _ in range(2):
            channel = ProcessChannel([sys.executable, "-IS", str(path), "serve"], str(tmp_path))
            stack.callback(channel.process.wait, 5)
            stack.callback(channel.close)
            channels.append(channel)
        yield Agents(*channels)


def counters(result: Result) -> Mapping[str, float]:
    assert result.mechanism
    return result.mechanism.counters


def test_main_queues_every_send_and_posts_what_completes_at_once(agents: Agents) -> None:
    result, server = agents.run(preset="main", **LOAD)
    requests = len(result.samples["latency_us"])
    assert requests > 50
    mine, theirs = counters(result), counters(server)
    for each in (mine, theirs):
        assert (each["sends_inline"], each["recv_inline"]) == (0, 0)
    assert mine["sends_queued"] >= requests
    # An answer of 4096 bytes is three datagrams.
    assert theirs["sends_queued"] == 3 * (server["answered"].value - 8) + 8
    # Each receive but the last of a chain is one that a post brought.
    assert mine["recv_woken"] + mine["recv_posted"] >= 3 * requests
    assert mine["recv_posted_per_request"] > 0.5
    assert mine["epoll_wakeups"] > 0


def test_latest_posts_nothing(agents: Agents) -> None:
    result, server = agents.run(preset="latest", inline_max=1000, **LOAD)
    for each in (counters(result), counters(server)):
        assert each["sends_queued"] == 0
        # Only what exceeds the inline maximum is posted: on a busy machine a turn gets that far.
        assert each["recv_posted"] * 1000 <= each["recv_inline"]
    assert counters(result)["recv_inline"] > 0
    assert counters(server)["sends_inline"] == 3 * (server["answered"].value - 8) + 8


def test_figures_agree_with_each_other_and_with_secnetperfs_line(agents: Agents) -> None:
    result, _ = agents.run(preset="latest", response_bytes=512, **LOAD)
    samples = sorted(result.samples["latency_us"])
    assert result["latency_min"].value == samples[0]
    assert result["latency_p50"].value == samples[len(samples) // 2]
    mean_us = sum(samples) / len(samples)
    # Little's law; a short run on a shared machine is only roughly in a steady state.
    assert 6 / result["rps"].value * 1e6 == pytest.approx(mean_us, rel=0.25)
    assert result.mechanism
    program, published = result.mechanism.lines
    rps = int(result["rps"].value)
    assert program.startswith(f"Result: {rps} RPS, Min: {samples[0]}, Max: {samples[-1]}, 50th: ")
    assert published.startswith(f"Run 1: {rps} RPS, Minimum: {samples[0]}, ")
    assert result.fidelity == "model"
    assert result.mechanism.harness.runs == 3


@needs_two_cpus
@pytest.mark.parametrize("send", ["inline", "queue_datapath"])
def test_maximum_throughput_hands_over_between_two_processes(agents: Agents, send: str) -> None:
    result, server = agents.run(profile="maxtput", send=send, **LOAD)
    is_queued = send == "queue_datapath"
    for each in (counters(result), counters(server)):
        assert (each["sends_queued"] > 0, each["sends_inline"] > 0) == (is_queued, not is_queued)
        assert (each["ring_full"], each["sends_dropped"]) == (0, 0)
    assert result["lost"].value == 0


@needs_two_cpus
@pytest.mark.parametrize("send", ["inline", "queue_datapath"])
def test_bulk_goes_one_way(agents: Agents, send: str) -> None:
    result, server = agents.run(profile="maxtput", send=send, mode="bulk", **SHORT)
    assert result["delivered_mbps"].value > 1
    assert server["bulk_received"].value > 100
    assert result["lost"].value == 0


@needs_two_cpus
@pytest.mark.parametrize("route", ["route_queue", "ideal_lookup", "proc0"])
@pytest.mark.parametrize("send", ["inline", "queue_self"])
def test_two_workers_share_the_peers(agents: Agents, route: str, send: str) -> None:
    # So many ports, and yet all of one parity: one in a million.
    given = {"workers": 2, "route": route, "send": send, **SHORT}
    result, server = agents.run(connections=20, in_flight=8, **given)
    assert result["lost"].value == 0
    assert len(result.samples["latency_us"]) > 50
    assert counters(server)["ring_full"] == 0


def test_null_never_touches_the_network(agents: Agents) -> None:
    result = agents.ask({"op": "null", **LOAD}, port=9)
    assert result["rps"].value > 1000
    assert "sends_inline" not in counters(result)


def test_nobody_listening_is_an_error_in_time(agents: Agents) -> None:
    start_s = time.monotonic()
    with pytest.raises(AgentError) as caught:
        agents.ask(SHORT, port=9)
    assert caught.value.kind == "no-answer"
    assert time.monotonic() - start_s < 5


def test_more_workers_than_cpus_are_refused(agents: Agents) -> None:
    cpus = len(os.sched_getaffinity(0))
    load = {"connections": 16, "in_flight": 16, "workers": cpus + 1, **SHORT}
    if cpus >= 16:
        pytest.skip("more CPUs than a run has workers")
    with pytest.raises(AgentError, match="CPUs") as caught:
        agents.ask(load, port=9)
    assert (caught.value.kind, caught.value.field) == ("inexpressible", "parameters.workers")


@pytest.mark.parametrize("profile", ["lowlat", pytest.param("maxtput", marks=needs_two_cpus)])
def test_a_server_gone_in_mid_run_leaves_what_was_measured(agents: Agents, profile: str) -> None:
    given = {"profile": profile, "send": "inline", "runtime_s": 60.0, "idle_s": 0.0, "null_s": 0.05}
    # The server's own run ends in an error, as it was killed.
    with pytest.raises(AgentError), agents.serving(given) as listening:
        workload = {"address": "127.0.0.1", "port": listening.port, **given}
        agents.client_channel.send(_request(workload))
        time.sleep(1.0)
        for process in agents.server_channel.tree():
            with contextlib.suppress(psutil.NoSuchProcess):  # its parent went first
                process.kill()
        outcome = _last_event(agents.client_channel)
    assert (outcome["event"], outcome["kind"]) == ("error", "peer-gone")
    assert outcome["result"]["partial"]
    assert any(each["name"] == "rps" for each in outcome["result"]["metrics"])


def test_stopped_in_mid_run_it_tells_what_it_has_and_leaves_no_process(agents: Agents) -> None:
    given = {"preset": "main", "runtime_s": 60.0, "idle_s": 0.0, "null_s": 0.05}
    with agents.serving(given) as listening:
        workload = {"address": "127.0.0.1", "port": listening.port, **given}
        agents.client_channel.send(_request(workload))
        time.sleep(1.0)
        children = agents.client_channel.tree()
        assert len(children) == 2
        start_s = time.monotonic()
        agents.client_channel.send(b'{"id": 1, "op": "stop"}\n')
        outcome = _last_event(agents.client_channel)
        assert time.monotonic() - start_s < 2
    assert (outcome["event"], outcome["reason"]) == ("stopped", "requested")
    assert outcome["result"]["partial"]
    psutil.wait_procs(children, timeout=2)
    assert not [each for each in children if each.is_running()]


def _request(parameters: Mapping[str, Any]) -> bytes:
    request = {"id": 1, "op": "run", "workload": "udp", "parameters": parameters, "deadline_s": 90}
    return json.dumps(request).encode() + b"\n"


def _last_event(channel: ProcessChannel) -> dict[str, Any]:
    while True:
        event: dict[str, Any] = json.loads(channel.readline(Deadline(20)))
        if event["event"] in ("result", "stopped", "error"):
            return event
