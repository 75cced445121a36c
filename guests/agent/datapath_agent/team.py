"""Processes forked from a run, which start together and are all gone when their block ends.

Mechanisms need processes, not threads: under the GIL a second thread is never where the first
one was interrupted. Members share what was mapped before the fork, and report once, at the end.
"""

from __future__ import annotations

import marshal
import mmap
import os
import select
import signal
import time

from datapath_agent.linux import die_with
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.run import Run

    Report = dict[str, Any]

# How long members may take to be ready: a fork and a few set-up calls in an emulated guest.
READY_S = 30.0
# From being told to stop to being killed; less than the agent allows a run (END_GRACE_S).
STOP_GRACE_S = 0.7
_LOOK_S = 0.1
_PROGRESS_S = 1.0


class Member:
    """What a member's body is given, in its own process."""

    def __init__(self, name: str, control: mmap.mmap, ready_fd: int, gate_fd: int) -> None:
        self.name = name
        self._control = control
        self._ready_fd = ready_fd
        self._gate_fd = gate_fd

    def ready(self) -> None:
        """Say that set-up is over, and wait until every member has said so."""
        os.write(self._ready_fd, b".")
        os.read(self._gate_fd, 1)  # the end of the pipe, once the team lets go of it

    @property
    def should_stop(self) -> bool:
        """Cheap enough to ask in every turn of a loop; no blocking call may outlast 0.1 s."""
        return self._control[0] != 0


class Team:
    """Members by name. Use as a context manager: no member survives the block."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._control = mmap.mmap(-1, 1)
        self._ready_fd, self._ready_write_fd = os.pipe()
        self._gate_fd, self._gate_write_fd = os.pipe()
        self._pids: dict[str, int] = {}
        self._report_fds: dict[str, int] = {}

    def fork(self, name: str, body: Callable[[Member], Report]) -> None:
        """Start a member; what `body` returns is its report (of types that marshal knows).

        `body` calls `member.ready()` once, before it begins what is measured.
        Raises Fault when the guest has no room for another process.
        """
        read_fd, write_fd = os.pipe()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(read_fd)
            os.close(write_fd)
            raise Fault(
                "refused", f"this guest cannot start a process more: {error.strerror}"
            ) from None
        if pid == 0:
            self._live(name, body, parent, write_fd)
        os.close(write_fd)
        self._pids[name] = pid
        self._report_fds[name] = read_fd

    def start(self) -> float:
        """Let all members go once all are ready; the time of it (CLOCK_MONOTONIC seconds)."""
        waiting = len(self._pids)
        end_s = time.monotonic() + READY_S
        while waiting:
            left_s = end_s - time.monotonic()
            watched = [self._ready_fd, *self._report_fds.values()]
            readable, _, _ = select.select(watched, [], [], max(0.0, min(left_s, _LOOK_S)))
            if self._ready_fd in readable:
                waiting -= len(os.read(self._ready_fd, waiting))
            elif readable or self._run.stop_reason:
                break  # one has failed before it was ready: collect() says how
            elif left_s <= 0:
                raise Fault("internal", f"{waiting} processes were not ready within {READY_S:g} s")
        os.close(self._gate_write_fd)
        self._gate_write_fd = -1
        return time.monotonic()

    def stop(self) -> None:
        """Tell all members to end, and report."""
        self._control[0] = 1

    def collect(self, watch: Callable[[], None] | None = None) -> dict[str, Report]:
        """Every member's report, in the order of their forks, once all have ended.

        `watch` is called ten times a second.
        When the run is to stop, or a member fails, the others are told to stop and get
        STOP_GRACE_S to report. Raises the first member's Fault, with `reports` of the others.
        """
        reports: dict[str, Report] = {}
        faults: list[Fault] = []
        data = dict.fromkeys(self._report_fds, b"")
        open_fds = {fd: name for name, fd in self._report_fds.items()}
        kill_s: float | None = None
        start_s = next_progress_s = time.monotonic()
        while open_fds:
            readable, _, _ = select.select(list(open_fds), [], [], _LOOK_S)
            for fd in readable:
                name = open_fds[fd]
                if chunk := os.read(fd, 1 << 20):
                    data[name] += chunk
                    continue
                del open_fds[fd]
                self._take(name, data[name], reports, faults)
            if watch:
                watch()
            next_progress_s = self._progress(start_s, next_progress_s)
            if kill_s is None and (faults or self._run.stop_reason):
                self.stop()
                kill_s = time.monotonic() + STOP_GRACE_S
            if kill_s is not None and time.monotonic() >= kill_s:
                break
        in_order = {name: reports[name] for name in self._pids if name in reports}
        if faults:
            faults[0].reports = in_order
            raise faults[0]
        return in_order

    def _progress(self, start_s: float, next_s: float) -> float:
        """Tell the host each second that the run goes on; when to tell it next."""
        now_s = time.monotonic()
        if now_s < next_s + _PROGRESS_S:
            return next_s
        self._run.progress(f"{len(self._pids)} processes measure, {now_s - start_s:.0f} s")
        return now_s

    def _take(
        self, name: str, data: bytes, reports: dict[str, Report], faults: list[Fault]
    ) -> None:
        try:
            kind, content = marshal.loads(data)
        except (EOFError, ValueError, TypeError):
            faults.append(Fault("internal", f"{name} was killed before it could report"))
            return
        if kind == "report":
            reports[name] = content
        else:
            faults.append(Fault(**content))

    def _live(
        self, name: str, body: Callable[[Member], Report], parent: int, write_fd: int
    ) -> None:
        """The member's whole life; never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            die_with(parent)
            os.close(self._gate_write_fd)
            for fd in self._report_fds.values():
                os.close(fd)
            member = Member(name, self._control, self._ready_write_fd, self._gate_fd)
            try:
                told = ("report", body(member))
            except Fault as fault:
                told = ("fault", fault.fields())
            except Exception as error:
                from datapath_agent.run import place_of

                message = f"{name}: {type(error).__name__}: {error}"
                told = ("fault", Fault("internal", message, detail=place_of(error)).fields())
            line = marshal.dumps(told)
            while line:
                line = line[os.write(write_fd, line) :]
        finally:
            os._exit(0)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            os.waitpid(pid, 0)
        fds = [*self._report_fds.values(), self._ready_fd, self._ready_write_fd, self._gate_fd]
        for fd in fds + [self._gate_write_fd] * (self._gate_write_fd >= 0):
            os.close(fd)
