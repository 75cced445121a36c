"""Locks between processes, which name their holder when they cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lab.deadline import Deadline, DeadlineExceeded


@contextmanager
def locked(path: Path, what: str, deadline: Deadline) -> Iterator[None]:
    """Hold the lock file `path` exclusively; the kernel frees it when its holder dies.

    Raises DeadlineExceeded, saying that `what` is locked and which process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=deadline.remaining_s)
    except Timeout:
        raise DeadlineExceeded(
            f"{what} is locked by {holder(path)}", where=str(path), elapsed_s=deadline.elapsed_s
        ) from None
    try:
        yield
    finally:
        lock.release()


def holder(path: Path) -> str:
    """The process that holds the flock on `path`, as `pid (its command line)`."""
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
        words = line.split()
        if words[1] == "FLOCK" and int(words[5].rpartition(":")[2]) == inode:
            return f"process {words[4]} ({command_line(int(words[4]))})"
    return "another process"


def command_line(pid: int) -> str:
    """The words a process was started with, or "" once it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
