"""One row of the agent's speed table: the agent, beside a tool that does the same in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.deadline import Deadline
from lab.running import RunningLab

Measure = Callable[[RunningLab, Deadline], float]


@dataclass(frozen=True)
class Row:
    """`ours` and `theirs` make one measurement each, in `unit`, larger being better.

    `floor` is the least ratio of ours to theirs; None where the row is only reported.
    """

    name: str
    unit: str
    floor: float | None
    ours: Measure
    theirs: Measure
    topology: str = "default.yaml"
