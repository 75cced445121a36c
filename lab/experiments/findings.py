"""What a judgement says: one finding a gate, with the statistics behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from lab.errors import Exit


class Verdict(StrEnum):
    """`REPORTED` claims nothing; `KNOWN` is a failure that the topology file expects."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOTHING_MEASURED = "nothing measured"
    BROKEN_LAB = "broken lab"
    KNOWN = "known issue"
    REPORTED = "reported"


# The worst first: one shown failure outweighs whatever else could not be told.
_EXITS = {
    Verdict.FAIL: Exit.FAILED,
    Verdict.BROKEN_LAB: Exit.BROKEN_LAB,
    Verdict.NOTHING_MEASURED: Exit.NOTHING_MEASURED,
    Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE,
    Verdict.PASS: Exit.OK,
    Verdict.KNOWN: Exit.OK,
    Verdict.REPORTED: Exit.OK,
}


@dataclass(frozen=True)
class Side:
    """The figures of one side of a gate: `boots` has the trials' values of each boot."""

    name: str
    boots: tuple[tuple[float, ...], ...]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value for boot in self.boots for value in boot)


@dataclass(frozen=True)
class Finding:
    """What became of a gate.

    `estimate` with its interval `low` .. `high` is a relative change (0.12 for +12 %) for kind
    `change`, a share of trials for `rate`, the metric itself for `value`. `confidence` is that of
    the interval. `detectable` is the smallest relative change (or rate) that this many boots (or
    trials) would have shown; `more_boots` how many further ones would settle an inconclusive
    gate, None if that cannot be said. `pairs` are the relative changes of the boots that were
    paired. `notes` are what a reader must know (a trial that failed, a noisy host).
    """

    experiment: str
    gate: str
    metric: str
    unit: str
    kind: Literal["change", "rate", "value"]
    claim: str
    verdict: Verdict
    why: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.99
    detectable: float | None = None
    more_boots: int | None = None
    reference: str = ""
    is_control: bool = False
    baseline: Side | None = None
    variant: Side | None = None
    pairs: tuple[float, ...] = ()
    notes: tuple[str, ...] = field(default=())


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The one that decides; REPORTED where nothing is claimed, NOTHING_MEASURED without any."""
    return next((each for each in _EXITS if each in verdicts), Verdict.NOTHING_MEASURED)


def exit_code(verdict: Verdict) -> Exit:
    return _EXITS[verdict]


def worst_exit(codes: Sequence[Exit]) -> Exit:
    """The code that decides, of one or more: those of verdicts, in the same order."""
    return next(code for code in _EXITS.values() if code in codes)
