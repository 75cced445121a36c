"""The command line as a user runs it, and the traces that labs can leave on the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lab.deadline import Deadline
from lab.host.state import labs_dir

ROOT = Path(__file__).parents[2]
LAB = Path(sys.executable).parent / "lab"
COMMAND_S = 600


def lab_command(*words: str, timeout_s: float = COMMAND_S) -> subprocess.CompletedProcess[str]:
    """Run `lab` to its end, as from the project's root."""
    return subprocess.run(
        [LAB, *words], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def wait_until_gone(no_traces: Callable[[], None], timeout_s: float) -> None:
    """Wait for what a killed run has left to go; then `no_traces` says what has not."""

    def is_clean() -> bool:
        try:
            no_traces()
        except AssertionError:
            return False
        return True

    try:
        Deadline(timeout_s).poll(is_clean, "the killed run's lab to go", interval_s=0.5)
    finally:
        no_traces()


def traces() -> dict[str, set[str]]:
    """Everything a lab can leave on a host, by kind."""
    return {
        "processes": set(_lab_processes()),
        "namespaces": _lines("ip", "netns", "list"),
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "labs": {path.name for path in labs_dir().iterdir()} if labs_dir().is_dir() else set(),
        "qemu logs": {path.name for path in Path("/var/log/libvirt/qemu").glob("lab-*")},
        "qemu state": {path.name for path in Path("/run/libvirt/qemu").glob("lab-*")},
        "qemu files": {path.name for path in Path("/var/lib/libvirt/qemu").glob("domain-*lab-*")},
    }


def _lines(*argv: str) -> set[str]:
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())


PROGRAMS = ("qemu-system", "libvirtd", "virtlogd", "virtqemud", "mmdebstrap", "janitor", "ansible")


def _lab_processes() -> list[str]:
    """Command lines, with pids, of the programs that labs start."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        line = b" ".join(argv).decode(errors="replace")
        if any(program in line for program in PROGRAMS) and "pytest" not in line:
            found.append(f"{entry.name} {line[:120]}")
    return found
