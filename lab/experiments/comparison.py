"""Two sides compared as their trials allow: within boots, over boots, or within one boot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.experiments.figures import Figures
from lab.experiments.findings import Side
from lab.stats import paired, separation, unpaired
from lab.stats.change import Change, NoRatio

Design = Literal["paired", "unpaired", "one boot"]

_ONE_BOOT_NOTE = "one boot: its trials were compared, how far boots differ is unknown"


@dataclass(frozen=True)
class Comparison:
    """`change` is None where there is no spread to judge by, or no ratio: `missing` says why.

    `separation_p` is the exact p-value that ranges which do not overlap would have.
    """

    design: Design
    baseline: Side
    variant: Side
    change: Change | None
    separation_p: float
    missing: str = ""
    notes: tuple[str, ...] = ()

    def more_boots(self, *changes: float) -> int | None:
        """Boots beyond those made until the interval leaves out every one of `changes`."""
        # How far boots differ cannot be told from one.
        if self.change is None or self.design == "one boot":
            return None
        needed = [self.change.boots_to_exclude(each) for each in changes]
        if any(each is None for each in needed):
            return None
        return max(each for each in needed if each is not None) - self.change.boots


def compare(baseline: Figures, variant: Figures, alpha: float) -> Comparison:
    """Paired within the boots both have; by boots' means where they share none."""
    shared = sorted(baseline.by_boot.keys() & variant.by_boot.keys())
    notes = (*baseline.notes, *variant.notes)
    if not shared:
        return _unpaired(baseline, variant, alpha, notes)
    alone = sorted(baseline.by_boot.keys() ^ variant.by_boot.keys())
    if alone:
        listed = ", ".join(map(str, alone))
        notes = (*notes, f"boots with trials of one side only are left out: {listed}")
    if len(shared) == 1:
        return _one_boot(baseline, variant, shared[0], alpha, notes)
    before, after = baseline.side(shared), variant.side(shared)
    change, missing = _changed("paired", before.boots, after.boots, alpha)
    p = separation.p_within(
        [(len(a), len(b)) for a, b in zip(before.boots, after.boots, strict=True)]
    )
    return Comparison("paired", before, after, change, p, missing, notes)


def _one_boot(
    baseline: Figures, variant: Figures, boot: int, alpha: float, notes: tuple[str, ...]
) -> Comparison:
    """Trials take the place of boots: trial i of the one goes with trial i of the other."""
    before, after = baseline.by_boot[boot], variant.by_boot[boot]
    common = sorted(before.keys() & after.keys())
    change, missing = _changed(
        "paired",
        tuple((before[each],) for each in common),
        tuple((after[each],) for each in common),
        alpha,
    )
    return Comparison(
        "one boot",
        baseline.side([boot]),
        variant.side([boot]),
        change,
        separation.p_within([(len(before), len(after))]),
        missing,
        (*notes, _ONE_BOOT_NOTE),
    )


def _unpaired(
    baseline: Figures, variant: Figures, alpha: float, notes: tuple[str, ...]
) -> Comparison:
    before, after = baseline.side(), variant.side()
    change, missing = _changed("unpaired", before.boots, after.boots, alpha)
    p = separation.p_between(len(before.boots), len(after.boots))
    return Comparison("unpaired", before, after, change, p, missing, notes)


def _changed(
    how: Literal["paired", "unpaired"],
    before: tuple[tuple[float, ...], ...],
    after: tuple[tuple[float, ...], ...],
    alpha: float,
) -> tuple[Change | None, str]:
    test = paired.compare if how == "paired" else unpaired.compare
    try:
        change = test(before, after, alpha)
    except NoRatio as error:
        return None, f"no relative change can be told: {error}"
    return change, "" if change else "fewer than two to compare on a side: no spread to judge by"
