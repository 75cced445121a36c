"""One run: a forked process that leads a process group and executes one workload.

Being a process of its own, it can block, fork and be killed without the agent noticing more
than its end. It speaks to the agent through a pipe of finished event lines.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from datapath_agent.linux import adopt_orphans, die_with
from datapath_agent.protocol import Fault, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.workload import Workload

# Bounds the length of a line; a result of any size may precede itself with sample events.
_SAMPLES_A_LINE = 10_000
# More than a disciplined clock slews in the length of a run.
_CLOCK_STEP_S = 0.05


class Run:
    """What a workload is given: a way to tell, a deadline, and word that it should stop."""

    def __init__(self, identifier: int | str, events_fd: int, deadline_s: float) -> None:
        self.identifier = identifier
        self.start_s = time.monotonic()
        self._clock_offset_s = _clock_offset_s()
        self.deadline_s = deadline_s
        self._events_fd = events_fd
        self._asked_to_stop = False
        # Becomes readable when a signal arrives, so that a select() wakes up.
        self.wake_fd, wake_write_fd = os.pipe()
        os.set_blocking(wake_write_fd, False)
        signal.set_wakeup_fd(wake_write_fd)
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _signal: int, _frame: object) -> None:
        self._asked_to_stop = True

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.start_s

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.deadline_s - self.elapsed_s)

    @property
    def stop_reason(self) -> str | None:
        """`requested` or `deadline` once the workload has to end, keeping what it has."""
        if self._asked_to_stop:
            return "requested"
        return "deadline" if self.remaining_s == 0 else None

    def emit(self, event: str, **fields: Any) -> None:
        line = encode({"id": self.identifier, "event": event, **fields})
        while line:
            line = line[os.write(self._events_fd, line) :]

    def ready(self, **fields: Any) -> None:
        """A server is listening; `fields` say where."""
        self.emit("ready", **fields)

    def progress(self, doing: str) -> None:
        self.emit("progress", elapsed_s=round(self.elapsed_s, 3), doing=doing)

    def finish(self, result: dict[str, Any]) -> None:
        """Tell the result, samples ahead of it; marked partial if the run was cut short."""
        reason = self.stop_reason
        told = self._told(result, is_partial=reason is not None)
        if reason is None:
            self.emit("result", result=told)
        else:
            self.emit("stopped", reason=reason, result=told)

    def fail(self, fault: Fault) -> None:
        """Tell what went wrong; a tool that was cut short is no failure."""
        reason = self.stop_reason
        partial = self._told(fault.partial, is_partial=True) if fault.partial else None
        if reason is None:
            self.emit("error", **fault.fields(), result=partial)
        else:
            self.emit("stopped", reason=reason, result=partial, why=fault.fields())

    def _told(self, result: dict[str, Any], *, is_partial: bool) -> dict[str, Any]:
        """The result as its event carries it, after its samples have been told."""
        told = dict(result)
        for name, values in told.pop("samples").items():
            for start in range(0, len(values), _SAMPLES_A_LINE):
                self.emit("sample", name=name, values=values[start : start + _SAMPLES_A_LINE])
        # Nothing here is timed by the clock of day, but what else logged the run may be.
        step_s = _clock_offset_s() - self._clock_offset_s
        told["clock_step_s"] = round(step_s, 3) if abs(step_s) > _CLOCK_STEP_S else 0.0
        return {**told, "partial": is_partial}


def execute(
    workload: Workload,
    parameters: dict[str, Any],
    *,
    identifier: int | str,
    events_fd: int,
    deadline_s: float,
    agent_pid: int,
) -> None:
    """Run `workload` in this freshly forked process, and end the process. Never returns.

    Exit status 0 means that the event which ends the run has been written.
    """
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        os.setpgid(0, 0)
        die_with(agent_pid)
        adopt_orphans()
        _leave_channel(events_fd)
        run = Run(identifier, events_fd, deadline_s)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        try:
            outcome = {"fidelity": workload.fidelity, **workload.run(run, parameters)}
        except Fault as fault:
            run.fail(fault)
        except Exception as error:
            run.fail(Fault("internal", f"{type(error).__name__}: {error}", detail=place_of(error)))
        else:
            run.finish(outcome)
        status = 0
    finally:
        os._exit(status)


def _leave_channel(events_fd: int) -> None:
    """Keep only the pipe: a print() must not end up among the agent's events."""
    null_fd = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_fd, 0)
    os.dup2(null_fd, 1)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != events_fd:
            try:
                os.close(int(name))
            except OSError:  # the directory's own descriptor
                continue
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _clock_offset_s() -> float:
    """How far the clock of day is ahead of the monotonic one: it changes when someone sets it."""
    return time.time() - time.monotonic()


def place_of(error: Exception) -> str | None:
    """Module and line where `error` was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    module = trace.tb_frame.f_globals.get("__name__")
    return f"at {module}:{trace.tb_lineno}, Python {sys.version.split()[0]}"
