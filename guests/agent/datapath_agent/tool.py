"""Runs one of the guest's own tools under a run's deadline, and keeps what it printed."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from collections import namedtuple

from datapath_agent.linux import die_with
from datapath_agent.listening import is_listening
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datapath_agent.run import Run

# What a finished tool left: its output, exit status and the command as one can paste it.
Output = namedtuple("Output", ["stdout", "stderr", "status", "command"])
# A socket that a server opens: kind is tcp, udp or rdma_cm.
Listening = namedtuple("Listening", ["kind", "address", "port"])

_POLL_S = 0.05
_PROGRESS_S = 1.0
_MOST_OUTPUT_BYTES = 16 << 20
# Tools get this long to print what they have after being asked to stop.
_STOP_GRACE_S = 3.0


def run_tool(run: Run, argv: list[str], *, listening: Listening | None = None) -> Output:
    """Run `argv` to its end, or interrupt it when the run has to stop.

    With `listening`, tells the host that the server is ready once its socket is there. Raises
    Fault if there is no such program or its output has no end.
    """
    parent_pid = os.getpid()
    environment = {**os.environ, "LC_ALL": "C"}
    # sshd leaves the system's own directories out of the path of a command.
    environment["PATH"] = environment.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=lambda: die_with(parent_pid),
        )
    except FileNotFoundError:
        raise Fault("missing-tool", f"this guest has no `{argv[0]}`") from None
    except OSError as error:
        raise Fault("missing-tool", f"cannot run `{argv[0]}`: {error.strerror}") from None
    with process:
        stdout, stderr = _collect(run, process, argv[0], listening)
    return Output(stdout, stderr, process.returncode, shlex.join(argv))


def _collect(
    run: Run, process: subprocess.Popen[bytes], name: str, listening: Listening | None
) -> tuple[str, str]:
    assert process.stdout is not None and process.stderr is not None
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    open_fds = list(kept)
    next_progress_s = time.monotonic() + _PROGRESS_S
    kill_s: float | None = None
    while open_fds:
        timeout_s = _POLL_S if listening else min(_PROGRESS_S, max(run.remaining_s, _POLL_S))
        readable, _, _ = select.select([*open_fds, run.wake_fd], [], [], timeout_s)
        for fd in readable:
            data = os.read(fd, 65536)
            if fd not in kept:
                continue
            if not data:
                open_fds.remove(fd)
            kept[fd] += data
        if sum(map(len, kept.values())) > _MOST_OUTPUT_BYTES:
            process.kill()
            raise Fault("bad-output", f"`{name}` printed more than {_MOST_OUTPUT_BYTES} bytes")
        now_s = time.monotonic()
        if kill_s is None and run.stop_reason:
            process.send_signal(signal.SIGINT)
            kill_s = now_s + _STOP_GRACE_S
        elif kill_s is not None and now_s >= kill_s:
            process.kill()
        if listening and is_listening(listening.kind, listening.port, process.pid):
            run.ready(address=listening.address, port=listening.port)
            listening = None
        if now_s >= next_progress_s:
            run.progress(f"{name} is running")
            next_progress_s = now_s + _PROGRESS_S
    stdout, stderr = (bytes(data).decode(errors="replace") for data in kept.values())
    return stdout, stderr


def last_lines(text: str, count: int = 5) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def failed(name: str, output: Output) -> Fault:
    """The fault of a tool that ended with an error status."""
    return Fault(
        "tool-failed",
        f"`{name}` ended with status {output.status}",
        detail=last_lines(output.stderr or output.stdout),
    )
