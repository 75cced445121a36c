"""A process as more than its pid: pids are used again, a pid with a start time is not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessIdentity:
    """A process of this boot; `start_ticks` is field 22 of /proc/PID/stat (proc(5))."""

    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        stat = _stat(self.pid)
        return stat is not None and stat == ("", self.start_ticks)


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process, or None when there is none with that pid."""
    stat = _stat(pid)
    return ProcessIdentity(pid, stat[1]) if stat else None


def own_identity() -> ProcessIdentity:
    identity = identify(os.getpid())
    assert identity
    return identity


def boot_id() -> str:
    """Changes with every boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and brackets; the fields after it do not.
    fields = text.rpartition(")")[2].split()
    return ("dead" if fields[0] in "ZX" else "", int(fields[19]))
