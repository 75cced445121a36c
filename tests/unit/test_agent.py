"""The real agent, run as a process on this host, behind the client that the lab uses."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.guest.agent_client import AgentClient, AgentError
from lab.guest.agent_file import agent_bytes, agent_version
from lab.guest.workloads import (
    Fio,
    Iperf3Client,
    Iperf3Server,
    PerftestClient,
    SockperfClient,
    UdpRrClient,
    UdpRrServer,
)

RECORDED = Path(__file__).parents[1] / "data" / "agent"
LOCAL = "127.0.0.1"


class ProcessChannel:
    """The agent's file, started on this host with pipes in the place of ssh."""

    def __init__(self, argv: list[str], path: str) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
        )
        self._buffer = b""

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def readline(self, deadline: Deadline) -> bytes:
        assert self.process.stdout
        while b"\n" not in self._buffer:
            if not select.select([self.process.stdout], [], [], deadline.remaining_s)[0]:
                raise DeadlineExceeded("no answer in time")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def stderr_tail(self) -> str:
        assert self.process.stderr
        return self.process.stderr.read().decode()

    def close(self) -> None:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def tree(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def exchange(self, *requests: Any, events: int) -> list[dict[str, Any]]:
        """Send raw lines or objects, and read so many events."""
        for request in requests:
            line = request if isinstance(request, bytes) else json.dumps(request).encode()
            self.send(line + b"\n")
        return [json.loads(self.readline(Deadline(20))) for _ in range(events)]


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "datapath-agent"
    path.write_bytes(agent_bytes())
    path.chmod(0o755)
    return path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory that comes first on the agent's PATH."""
    directory = tmp_path / "tools"
    directory.mkdir()
    return directory


@pytest.fixture
def channel(agent_file: Path, tools: Path) -> Iterator[ProcessChannel]:
    started = ProcessChannel([sys.executable, "-IS", str(agent_file), "serve"], str(tools))
    yield started
    started.close()
    try:
        started.process.wait(5)
    finally:
        started.process.kill()
        started.process.wait()


@pytest.fixture
def agent(channel: ProcessChannel) -> AgentClient:
    return AgentClient(channel, "client")


def fake(tools: Path, name: str, script: str) -> None:
    (tools / name).write_text(f"#!/bin/bash\n{script}\n")
    (tools / name).chmod(0o755)


def test_hello_tells_version_and_facts(agent: AgentClient) -> None:
    hello = agent.hello(Deadline(20))
    assert hello.version == agent_version()
    assert hello.kernel == os.uname().release
    assert hello.facts["vcpus"] == len(os.sched_getaffinity(0))
    assert hello.facts["memory_bytes"] == psutil.virtual_memory().total


def test_hello_imports_next_to_nothing(agent_file: Path) -> None:
    """Emulated guests pay some milliseconds for every module."""
    run = subprocess.run(
        [sys.executable, "-IS", "-X", "importtime", agent_file, "serve"],
        input=b'{"id": 1, "op": "hello"}\n',
        capture_output=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.decode().splitlines()}
    own = {name for name in imported if name.startswith("datapath_agent.")}
    assert own == {
        f"datapath_agent.{name}"
        for name in ("main", "serve", "protocol", "version", "facts", "disks", "rdma")
    }
    assert not imported & {"subprocess", "ctypes", "socket", "typing", "dataclasses", "pathlib"}


@pytest.mark.parametrize(
    ("request_", "kind", "field"),
    [
        (b"{broken", "bad-request", None),
        (b"[1, 2]", "bad-request", None),
        (b"[" * 100_000, "bad-request", None),
        (b"\xff\xfe", "bad-request", None),
        ({"op": "hello"}, "bad-request", "id"),
        ({"id": True, "op": "hello"}, "bad-request", "id"),
        ({"id": 1}, "unknown-op", "op"),
        ({"id": 1, "op": "dance"}, "unknown-op", "op"),
        ({"id": 1, "op": "stop"}, "bad-request", "id"),
        ({"id": 1, "op": "run", "deadline_s": 1}, "unknown-workload", "workload"),
        ({"id": 1, "op": "run", "workload": "x", "deadline_s": 1}, "unknown-workload", "workload"),
        ({"id": 1, "op": "run", "workload": "fio"}, "bad-request", "deadline_s"),
        ({"id": 1, "op": "run", "workload": "fio", "deadline_s": -1}, "bad-request", "deadline_s"),
        ({"id": 1, "op": "run", "deadline_s": 1, "extra": 1}, "bad-request", "extra"),
    ],
)
def test_bad_requests_are_answered_and_survived(
    channel: ProcessChannel, request_: Any, kind: str, field: str | None
) -> None:
    error, hello = channel.exchange(request_, {"id": "next", "op": "hello"}, events=2)
    assert (error["event"], error["kind"], error.get("field")) == ("error", kind, field)
    assert hello["event"] == "hello"


@pytest.mark.parametrize(
    ("parameters", "field", "words"),
    [
        ({}, "disk", "has to be given"),
        ({"disk": "data0", "pattern": "sideways"}, "pattern", "is one of read, write"),
        ({"disk": "data0", "pattern": "read", "iodepth": "8"}, "iodepth", "a whole number"),
        ({"disk": "data0", "pattern": "read", "iodepth": True}, "iodepth", "a whole number"),
        ({"disk": "data0", "pattern": "read", "iodepth": 0}, "iodepth", "at least 1"),
        ({"disk": "data0", "pattern": "read", "runtime_s": float("nan")}, "runtime_s", "at least"),
        ({"disk": "--help", "pattern": "read"}, "disk", "dash"),
        ({"disk": "data0", "pattern": "read", "depth": 1}, "depth", "unknown; there are"),
    ],
)
def test_a_bad_parameter_is_named(
    channel: ProcessChannel, parameters: dict[str, Any], field: str, words: str
) -> None:
    request = {
        "id": 1,
        "op": "run",
        "workload": "fio",
        "deadline_s": 5,
        "parameters": parameters,
    }
    (error,) = channel.exchange(request, events=1)
    assert (error["kind"], error["field"]) == ("bad-parameter", f"parameters.{field}")
    assert words in error["message"]


def test_udp_requests_are_answered_and_every_latency_kept(agent: AgentClient) -> None:
    deadline = Deadline(30)
    with agent.start(UdpRrServer(address=LOCAL), deadline=deadline) as server:
        client = UdpRrClient(address=LOCAL, port=server.port, runtime_s=0.5, response_bytes=512)
        result = agent.run(client, deadline=deadline)
        answered = server.stop(deadline)
    samples = sorted(result.samples["latency_us"])
    assert len(samples) > 100
    assert result["latency_p50"].value == samples[len(samples) // 2]
    assert result["lost"].value == 0
    assert not result.partial
    assert answered is not None
    assert answered["answered"].value == len(samples)


def test_more_samples_than_fit_a_line_arrive_whole(
    agent: AgentClient, channel: ProcessChannel
) -> None:
    deadline = Deadline(30)
    with agent.start(UdpRrServer(address=LOCAL), deadline=deadline) as server:
        client = UdpRrClient(address=LOCAL, port=server.port, runtime_s=2.0, response_bytes=0)
        result = agent.run(client, deadline=deadline)
    assert len(result.samples["latency_us"]) > 10_000
    assert result["rps"].value == pytest.approx(len(result.samples["latency_us"]) / 2, rel=0.05)


def test_a_peer_that_does_not_answer_is_an_error(agent: AgentClient) -> None:
    with pytest.raises(AgentError, match=r"guest client: .*nothing listens") as caught:
        agent.run(UdpRrClient(address=LOCAL, port=9, runtime_s=0.3), deadline=Deadline(20))
    assert caught.value.kind == "no-answer"


def test_stop_keeps_what_was_measured(channel: ProcessChannel) -> None:
    """On the wire: the server's `ready`, then samples, a partial result, marked as such."""
    serve = {"workload": "udp-rr-server", "parameters": {"address": LOCAL}}
    (ready,) = channel.exchange({"id": 1, "op": "run", "deadline_s": 30, **serve}, events=1)
    parameters = {"address": LOCAL, "port": ready["port"], "runtime_s": 20}
    run = {"workload": "udp-rr-client", "parameters": parameters}
    channel.exchange({"id": 2, "op": "run", "deadline_s": 30, **run}, events=1)
    channel.send(b'{"id": 2, "op": "stop"}\n')
    seen = []
    while not seen or seen[-1]["event"] != "stopped":
        seen += channel.exchange(events=1)
    assert "sample" in [event["event"] for event in seen]
    assert seen[-1]["reason"] == "requested"
    assert seen[-1]["result"]["partial"]


def test_a_deadline_ends_a_run_and_keeps_what_it_has(agent: AgentClient) -> None:
    with agent.start(UdpRrServer(address=LOCAL), deadline=Deadline(30)) as server:
        client = UdpRrClient(address=LOCAL, port=server.port, runtime_s=60)
        with pytest.raises(AgentError) as caught:
            agent.run(client, deadline=Deadline(2))
    assert caught.value.kind == "deadline"
    assert caught.value.partial
    assert caught.value.partial.partial
    assert caught.value.partial.samples["latency_us"]


def test_runs_go_on_side_by_side(agent: AgentClient) -> None:
    deadline = Deadline(30)
    with (
        agent.start(UdpRrServer(address=LOCAL), deadline=deadline) as one,
        agent.start(UdpRrServer(address=LOCAL), deadline=deadline) as other,
    ):
        assert one.port != other.port
        for server in (one, other):
            client = UdpRrClient(address=LOCAL, port=server.port, runtime_s=0.2)
            assert agent.run(client, deadline=deadline)["lost"].value == 0


def test_a_tool_that_is_missing_is_named(agent: AgentClient, tools: Path) -> None:
    with pytest.raises(AgentError, match="no `iperf3`") as caught:
        agent.run(Iperf3Client(address=LOCAL, port=1), deadline=Deadline(20))
    assert caught.value.kind == "missing-tool"


def test_a_tool_gets_its_arguments_and_its_report_is_kept(agent: AgentClient, tools: Path) -> None:
    fake(tools, "iperf3", f"cat {RECORDED / 'iperf3-client.json'}")
    client = Iperf3Client(address="10.9.0.1", port=5201, streams=4, reverse=True)
    result = agent.run(client, deadline=Deadline(20))
    assert result["throughput"].value == pytest.approx(5.8059, abs=1e-4)
    assert result.raw["start"]["version"] == "iperf 3.12"
    assert result.command == (
        "iperf3 --client 10.9.0.1 --port 5201 --time 2 --parallel 4 --json --reverse"
    )


def test_progress_reaches_the_host(agent: AgentClient, tools: Path) -> None:
    fake(tools, "sockperf", f"sleep 1.3; cat {RECORDED / 'sockperf-ping-pong.txt'}")
    said: list[str] = []
    agent.run(SockperfClient(address=LOCAL, port=1), deadline=Deadline(20), on_progress=said.append)
    assert said == ["sockperf is running"]


def test_a_server_is_ready_only_once_its_own_socket_listens(
    agent: AgentClient, tools: Path
) -> None:
    fake(
        tools,
        "iperf3",
        f"exec {sys.executable} -c '"
        "import signal, socket, sys, time; time.sleep(0.7); s = socket.socket();"
        's.bind(("127.0.0.1", int(sys.argv[5]))); s.listen(); signal.pause()\' "$@"',
    )
    start_s = time.monotonic()
    with agent.start(Iperf3Server(address=LOCAL), deadline=Deadline(20)) as server:
        assert time.monotonic() - start_s > 0.7
        assert server.address == LOCAL
        assert server.port > 0


def test_someone_elses_socket_does_not_make_a_server_ready(agent: AgentClient, tools: Path) -> None:
    fake(tools, "iperf3", "exec sleep 600")
    with socket.create_server((LOCAL, 0)) as other:
        taken = Iperf3Server(address=LOCAL, port=other.getsockname()[1])
        with pytest.raises(AgentError) as caught, agent.start(taken, deadline=Deadline(2)):
            pass
    assert caught.value.kind == "deadline"


def test_a_server_that_cannot_listen_is_an_error(agent: AgentClient, tools: Path) -> None:
    fake(tools, "iperf3", 'echo "unable to start listener" >&2; exit 1')
    with (
        pytest.raises(AgentError) as caught,
        agent.start(Iperf3Server(address=LOCAL), deadline=Deadline(20)),
    ):
        pass
    assert caught.value.kind == "tool-failed"
    assert caught.value.detail == "unable to start listener"


def test_disks_without_that_serial_are_refused_with_the_serials_there_are(
    agent: AgentClient,
) -> None:
    with pytest.raises(AgentError, match=r"no disk has the serial 'nope'") as caught:
        agent.run(Fio(disk="nope", pattern="read"), deadline=Deadline(20))
    assert caught.value.field == "parameters.disk"


def test_a_missing_rdma_device_is_named(agent: AgentClient) -> None:
    client = PerftestClient(test="ib_write_bw", device="rxe9", address=LOCAL, port=1)
    with pytest.raises(AgentError, match="no RDMA device 'rxe9'") as caught:
        agent.run(client, deadline=Deadline(20))
    assert caught.value.field == "parameters.device"


# A tool that ignores signals, with a child that has left its session: as stubborn as it gets.
STUBBORN = "trap '' INT TERM HUP; setsid sleep 600 & sleep 600; sleep 600"


def stubborn_tree(channel: ProcessChannel, tools: Path) -> list[psutil.Process]:
    fake(tools, "sockperf", STUBBORN)
    request = {
        "id": 1,
        "op": "run",
        "workload": "sockperf-client",
        "deadline_s": 100,
        "parameters": {"address": LOCAL, "port": 1},
    }
    channel.send(json.dumps(request).encode() + b"\n")
    return Deadline(10).poll(
        lambda: tree if len(tree := channel.tree()) >= 4 else None, "the tool and its children"
    )


@pytest.mark.parametrize("way", ["end of input", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_nothing_outlives_the_agent(channel: ProcessChannel, tools: Path, way: str) -> None:
    tree = stubborn_tree(channel, tools)
    if way == "end of input":
        channel.close()
    else:
        channel.process.send_signal(getattr(signal, way))
    _, alive = psutil.wait_procs(tree, timeout=2)
    left = [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]
    for each in left:
        each.kill()
    if way == "SIGKILL":
        # The kernel ends the run and its tool; a tool's own children are beyond its reach.
        left = [each for each in left if each.name() != "sleep"]
    assert not left
    channel.process.wait(2)


def test_nothing_outlives_a_run_that_is_stopped(
    channel: ProcessChannel, tools: Path, agent: AgentClient
) -> None:
    tree = stubborn_tree(channel, tools)
    channel.send(b'{"id": 1, "op": "stop"}\n')
    (stopped,) = channel.exchange(events=1)
    while stopped["event"] == "progress":
        (stopped,) = channel.exchange(events=1)
    assert (stopped["event"], stopped["result"]) == ("stopped", None)
    _, alive = psutil.wait_procs(tree, timeout=2)
    assert not alive
    assert channel.process.poll() is None


def test_losing_the_agent_names_the_guest(channel: ProcessChannel, agent: AgentClient) -> None:
    with (
        pytest.raises(LabError, match="guest client: the agent ended") as caught,
        agent.start(UdpRrServer(address=LOCAL), deadline=Deadline(20)) as server,
    ):
        channel.process.kill()
        server.wait(Deadline(20))
    assert not isinstance(caught.value, AgentError)


def test_a_host_that_does_not_read_cannot_hold_the_agent(channel: ProcessChannel) -> None:
    """Its output pipe (64 KiB) is full, and yet it ends with its input (which is not)."""
    for _ in range(30):
        channel.send(json.dumps({"id": "x" * 2000, "op": "hello"}).encode() + b"\n")
    channel.close()
    assert channel.process.wait(2) == 0


def test_list_names_every_workload_and_parameter(agent_file: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-IS", agent_file, "list"], capture_output=True, text=True, check=True
    ).stdout
    assert "fio: storage requests to a data disk" in listed
    assert "pattern: access pattern (read, write, randread" in listed
    assert "runtime_s: seconds to measure (0.1 .. 86400); default 2.0" in listed
