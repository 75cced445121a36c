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

from lab.deadline import Deadline
from lab.errors import LabError
from lab.host.processes import ProcessIdentity, own_identity

# The kernel closes a dying process's files a moment before the process counts as gone.
DYING_S = 10.0


@contextmanager
def watched(lab: str) -> Iterator[None]:
    """Have lab `lab` removed when this process dies inside the block."""
    run = own_identity()
    janitor = subprocess.Popen(
        [sys.executable, "-m", "lab.janitor", lab, str(run.pid), str(run.start_ticks)],
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


def main(lab: str, run: ProcessIdentity) -> int:
    from lab.record import load
    from lab.teardown import down

    sys.stdin.read()
    try:
        if load(lab):
            # The lab is the run's own for as long as the run is alive.
            Deadline(DYING_S).poll(lambda: not run.alive, f"process {run.pid} to end")
        down(lab)
    except LabError:
        # Nobody is there to be told; the lease has lapsed, so `lab reap` tries again.
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], ProcessIdentity(int(sys.argv[2]), int(sys.argv[3]))))
