"""A process that outlives a killed run for as long as it takes to remove the run's lab.

libvirt destroys the domains of a bound lab by itself; its namespace and files have no such
owner. The janitor waits for its standard input to end, which the kernel sees to when the run
dies of whatever cause, and takes down what is left of the lab.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import LabError


@contextmanager
def watched(lab: str) -> Iterator[None]:
    """Have lab `lab` removed when this process dies inside the block."""
    janitor = subprocess.Popen(
        [sys.executable, "-m", "lab.janitor", lab],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert janitor.stdin
        janitor.stdin.close()
        janitor.wait()


def main(lab: str) -> int:
    from lab.teardown import down

    sys.stdin.read()
    try:
        down(lab)
    except LabError:
        # Nobody is there to be told; the lease has lapsed, so `lab reap` tries again.
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
