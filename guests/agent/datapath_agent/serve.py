"""The agent's loop: requests from the host, events of the runs, and the end of it all.

Single-threaded and never blocked: one select() over the channel, the pipes of the runs and a
pipe that signals write to. When stdin closes or SIGTERM comes, runs get END_GRACE_S to hand
over what they have; then they and everything that they ever started are killed.
"""

from __future__ import annotations

import os
import select
import signal
import time

from datapath_agent.protocol import MAX_REQUEST_BYTES, Fault, decode, encode
from datapath_agent.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Identifier = int | str

END_GRACE_S = 1.0
# From a stop request, or a run's own deadline, to its being killed: emulated guests need a
# second or two to print a long result.
STOP_GRACE_S = 5.0
LONGEST_RUN_S = 86400.0
# The host is behind: let the runs wait rather than collect their events here.
_FULL_BYTES = 1 << 20
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class _Child:
    """A run as the agent sees it: a process group and a pipe of event lines."""

    def __init__(self, identifier: Identifier, pid: int, events_fd: int, kill_s: float) -> None:
        self.identifier = identifier
        self.pid = pid
        self.events_fd = events_fd
        self.kill_s = kill_s
        self.is_killed = False
        self.pending = b""


def serve(*, stdin: int, stdout: int) -> None:
    """Answer requests until `stdin` closes or a signal ends the agent."""
    _Agent(stdin, stdout).loop()


class _Agent:
    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._requests = b""
        self._outbox = bytearray()
        self._children: dict[Identifier, _Child] = {}
        self._end_s: float | None = None
        self._wake_fd, wake_write_fd = os.pipe()
        for fd in (self._wake_fd, wake_write_fd, stdout):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write_fd)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _ENDING_SIGNALS:
            signal.signal(number, lambda *_: self._end())

    def loop(self) -> None:
        while not self._is_over():
            self._wait()
            self._reap()
            self._kill_overdue()

    def _is_over(self) -> bool:
        if self._end_s is None or self._children:
            return False
        return not self._outbox or time.monotonic() >= self._end_s

    def _wait(self) -> None:
        readers = [self._wake_fd]
        if self._end_s is None:
            readers.append(self._stdin)
        if len(self._outbox) < _FULL_BYTES:
            readers += [child.events_fd for child in self._children.values()]
        writers = [self._stdout] if self._outbox else []
        readable, writable, _ = select.select(readers, writers, [], self._timeout_s())
        if self._wake_fd in readable:
            os.read(self._wake_fd, 4096)
        for child in self._children.values():
            if child.events_fd in readable:
                self._forward(child)
        if self._stdin in readable:
            self._read()
        if writable:
            self._write()

    def _timeout_s(self) -> float | None:
        times = [child.kill_s for child in self._children.values() if not child.is_killed]
        if self._end_s is not None:
            times.append(self._end_s)
        return max(0.0, min(times) - time.monotonic()) if times else None

    # The channel.

    def _read(self) -> None:
        data = os.read(self._stdin, 65536)
        if not data:
            self._end()
            return
        *lines, self._requests = (self._requests + data).split(b"\n")
        if len(self._requests) > MAX_REQUEST_BYTES:
            self._requests = b""
            lines.append(b"(a line that is too long)")
        for line in lines:
            if line.strip():
                self._handle(line)

    def _write(self) -> None:
        try:
            while self._outbox:
                del self._outbox[: os.write(self._stdout, self._outbox)]
        except BlockingIOError:
            pass
        except OSError:  # nobody listens any more
            self._outbox.clear()
            self._end()

    def _tell(self, identifier: object, event: str, **fields: Any) -> None:
        self._outbox += encode({"id": identifier, "event": event, **fields})

    # Requests.

    def _handle(self, line: bytes) -> None:
        identifier = None
        try:
            request = decode(line)
            given = request.get("id")
            if isinstance(given, bool) or not isinstance(given, (int, str)):
                raise Fault("bad-request", "a request has a number or a text as id", field="id")
            identifier = given
            self._answer(identifier, request)
        except Fault as fault:
            self._tell(identifier, "error", **fault.fields())
        except Exception as error:  # the agent outlives its own mistakes
            self._tell(
                identifier, "error", kind="internal", message=f"{type(error).__name__}: {error}"
            )

    def _answer(self, identifier: Identifier, request: dict[str, Any]) -> None:
        operation = request.get("op")
        if operation == "hello":
            from datapath_agent.facts import facts

            self._tell(identifier, "hello", version=VERSION, **facts())
        elif operation == "run":
            self._run(identifier, request)
        elif operation == "stop":
            self._stop(identifier)
        else:
            raise Fault(
                "unknown-op", f"no op {operation!r:.60}; there are hello, run, stop", field="op"
            )

    def _run(self, identifier: Identifier, request: dict[str, Any]) -> None:
        if identifier in self._children:
            raise Fault("bad-request", "a run with this id is under way", field="id")
        for field in request:
            if field not in ("id", "op", "workload", "parameters", "deadline_s"):
                raise Fault("bad-request", "unknown field of a run", field=field)
        deadline_s = request.get("deadline_s")
        if type(deadline_s) is int:
            deadline_s = float(deadline_s)
        if not isinstance(deadline_s, float) or not 0 < deadline_s <= LONGEST_RUN_S:
            raise Fault(
                "bad-request", f"needs seconds, at most {LONGEST_RUN_S:g}", field="deadline_s"
            )
        from datapath_agent.registry import find
        from datapath_agent.workload import prepare

        workload = find(request.get("workload"))
        parameters = prepare(workload, request.get("parameters", {}))
        self._start(identifier, workload, parameters, deadline_s)

    def _start(
        self, identifier: Identifier, workload: Any, parameters: dict[str, Any], deadline_s: float
    ) -> None:
        from datapath_agent.linux import adopt_orphans
        from datapath_agent.run import execute

        adopt_orphans()
        agent_pid = os.getpid()
        read_fd, write_fd = os.pipe()
        # A signal for the child must not run the agent's handlers in it; it waits for its own.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*_ENDING_SIGNALS, signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            execute(
                workload,
                parameters,
                identifier=identifier,
                events_fd=write_fd,
                deadline_s=deadline_s,
                agent_pid=agent_pid,
            )
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(write_fd)
        os.set_blocking(read_fd, False)
        try:
            os.setpgid(pid, pid)  # also done by the child: whoever comes first
        except OSError:
            pass
        kill_s = time.monotonic() + deadline_s + STOP_GRACE_S
        self._children[identifier] = _Child(identifier, pid, read_fd, kill_s)

    def _stop(self, identifier: Identifier) -> None:
        if identifier not in self._children:
            raise Fault("bad-request", "no run with this id is under way", field="id")
        self._ask_to_stop(self._children[identifier], STOP_GRACE_S)

    def _ask_to_stop(self, child: _Child, grace_s: float) -> None:
        child.kill_s = min(child.kill_s, time.monotonic() + grace_s)
        os.kill(child.pid, signal.SIGTERM)

    # Runs.

    def _forward(self, child: _Child) -> bool:
        """Pass on the finished lines that `child` has written; whether there were any bytes."""
        try:
            data = os.read(child.events_fd, 65536)
        except BlockingIOError:
            return False
        *lines, child.pending = (child.pending + data).split(b"\n")
        for line in lines:
            self._outbox += line + b"\n"
        return bool(data)

    def _reap(self) -> None:
        """Finish runs whose process has ended, with all that it left behind."""
        for child in list(self._children.values()):
            # Not yet waited for, its number cannot be anyone else's when its group is killed.
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill_group(child.pid)
            _, status = os.waitpid(child.pid, 0)
            while self._forward(child):
                pass
            os.close(child.events_fd)
            del self._children[child.identifier]
            if child.is_killed:
                self._tell(child.identifier, "stopped", reason="killed", result=None)
            elif status != 0:
                self._tell(child.identifier, "error", **_died(status).fields())
            self._kill_orphans()

    def _kill_orphans(self) -> None:
        """Kill what ended runs left behind outside their groups: orphans come to the agent."""
        from datapath_agent.linux import children

        leaders = {child.pid for child in self._children.values()}
        while strays := [pid for pid in children() if pid not in leaders]:
            for pid in strays:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _kill_overdue(self) -> None:
        now_s = time.monotonic()
        for child in self._children.values():
            if now_s >= child.kill_s and not child.is_killed:
                _kill_group(child.pid)
                child.is_killed = True

    def _end(self) -> None:
        """Have every run stop, soon by force; the loop ends with the last of them."""
        if self._end_s is None:
            self._end_s = time.monotonic() + END_GRACE_S
            for child in self._children.values():
                self._ask_to_stop(child, END_GRACE_S)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _died(status: int) -> Fault:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Fault("internal", f"the run was killed by {name} before it could end by itself")
    return Fault("internal", f"the run ended with status {os.WEXITSTATUS(status)} and no result")
