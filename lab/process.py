"""The one way the lab runs a host process: logged so that it can be pasted into a shell."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError

log = logging.getLogger(__name__)

Argv = Sequence[str | Path]

# The kernel kills the process when the lab is killed (prctl(2), PR_SET_PDEATHSIG).
DIES_WITH_THE_LAB = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass(frozen=True)
class Completed:
    """A finished process: decoded output, exit status (negative: killed by that signal)."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    elapsed_s: float


class CommandFailed(LabError):
    """A host command exited with a status other than 0, or could not be started."""


def run(
    argv: Argv,
    *,
    deadline: Deadline,
    check: bool = True,
    input: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    hint: str | None = None,
) -> Completed:
    """Run `argv` to its end, or kill its whole process group when `deadline` passes.

    `env` is added to the lab's own environment. Raises CommandFailed (status other than 0 with
    `check`, or no such program) and DeadlineExceeded, both showing the command and the last
    lines of its stderr.
    """
    words = tuple(os.fspath(word) for word in argv)
    shown = shlex.join(words)
    log.debug("+ %s", shown)
    start_s = time.monotonic()
    try:
        if shutil.which(words[0]) is None:
            raise FileNotFoundError(errno.ENOENT, "no such program", words[0])
        process = subprocess.Popen(
            (*DIES_WITH_THE_LAB, *words),
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **env} if env else None,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(
            f"cannot run `{shown}`: {error.strerror}",
            hint=hint or "`lab doctor` lists what the host lacks",
        ) from error
    try:
        stdout, stderr = process.communicate(input, timeout=deadline.remaining_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        _, stderr = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise DeadlineExceeded(
                f"`{shown}` did not end in time",
                detail=tail(stderr),
                hint=hint,
                elapsed_s=time.monotonic() - start_s,
            ) from None
        raise
    elapsed_s = time.monotonic() - start_s
    if check and process.returncode != 0:
        raise CommandFailed(
            f"`{shown}` {describe_status(process.returncode)}",
            detail=tail(stderr or stdout),
            hint=hint,
            elapsed_s=elapsed_s,
        )
    return Completed(words, process.returncode, stdout, stderr, elapsed_s)


def describe_status(returncode: int) -> str:
    """How a process ended, in words: its exit status or the signal that killed it."""
    if returncode < 0:
        return f"was killed by {signal.Signals(-returncode).name}"
    return f"exited with status {returncode}"


def tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])
