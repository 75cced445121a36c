"""What a check on figures comes to, before it is told of a gate; and how figures are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.experiments.findings import Side, Verdict

Kind = Literal["change", "rate", "value"]


@dataclass(frozen=True)
class Outcome:
    """The fields are those of a Finding.

    `failing_share` is the share of `trials` trials that violate a claim about every trial, None
    for claims of another kind.
    """

    verdict: Verdict
    why: str
    kind: Kind
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    detectable: float | None = None
    more_boots: int | None = None
    baseline: Side | None = None
    variant: Side | None = None
    pairs: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    failing_share: float | None = None
    trials: int = 0


# Of two or three noisy boots an interval may reach to the billions: more digits say no more.
MOST_SHARE = 100.0


def percent(share: float) -> str:
    """`0.125` -> `+12.5 %`; beyond MOST_SHARE only that it is."""
    if share > MOST_SHARE:
        return f"> {percent(MOST_SHARE)}"
    number = share * 100
    return f"{number:+,.1f} %" if abs(number) < 100 else f"{number:+,.0f} %"


def bare_percent(share: float) -> str:
    """`0.15` -> `15 %`."""
    return f"{share * 100:g} %"


def number(value: float) -> str:
    return f"{value:,.4g}"


def with_unit(value: float, unit: str) -> str:
    return number(value) if unit == "ratio" else f"{number(value)} {unit}".rstrip()
