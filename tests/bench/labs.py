"""The lab that a bench measures in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from lab.bringup import bound_lab
from lab.deadline import Deadline
from lab.preparation import prepare
from lab.progress import Progress
from lab.running import RunningLab, find
from lab.topology.load import load

ROOT = Path(__file__).parents[2]
UP_S = 1800.0


def topology_lab(
    topology: str, name: str | None, progress: Progress
) -> AbstractContextManager[RunningLab]:
    """The lab called `name`; without one, a lab of `topology` that goes with this process."""
    if name:
        return find(name)
    loaded = load(ROOT / "topologies" / topology)
    deadline = Deadline(UP_S)
    prepared = prepare(loaded, wanted="auto", progress=progress, deadline=deadline)
    return bound_lab(prepared, progress=progress, deadline=deadline)
