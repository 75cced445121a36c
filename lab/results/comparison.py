"""Two sets of series, metric by metric: improved, regressed, or not to be told.

A change is shown if its interval excludes none: by Welch's t test on logarithms, or the paired t
test where runs go together. It is shown as well if the sides are separated, every figure of the
one beyond every one of the other, and the permutation test gives that no more than alpha: with few
boots an outlier away from the other side widens the interval, yet takes nothing from the order.
Of equal sides the two together find one different in 1.1 % (normal figures, 5 boots a side, alpha
0.01). Every metric is judged for itself: of a hundred that did not change about one will differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.errors import Exit, InputError
from lab.results.series import Better, Series
from lab.stats import paired, separation, unpaired
from lab.stats.change import Boots, Change, NoRatio


class Outcome(StrEnum):
    IMPROVED = "improved"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Comparison:
    """What became of one metric. `change` is None where there is no interval, and `why` says why.

    `is_separated` with `p_separated`: no figure of one side is among those of the other, and the
    exact two-sided chance of that if the sides were the same.
    """

    variant: str
    metric: str
    unit: str
    better: Better
    base: Boots
    new: Boots
    outcome: Outcome
    change: Change | None
    is_separated: bool
    p_separated: float
    why: str = ""


def compare(
    base: Sequence[Series], new: Sequence[Series], *, alpha: float = 0.01, is_paired: bool = False
) -> list[Comparison]:
    """Every metric that both have, of the same labels, in the order of `base`.

    Sides with one set of labels each are compared whatever these are. `is_paired` pairs runs of
    the same id. Raises InputError where nothing, or no run, goes together.
    """
    both = _matched(base, new)
    if not both:
        raise InputError(
            f"nothing in common: the first has {_told(base)}, the second {_told(new)}",
            hint="`lab import` shows metrics and labels; FILE:LABEL chooses one label of a file",
        )
    return [_judge(before, after, alpha, is_paired) for before, after in both]


def unmatched(base: Sequence[Series], new: Sequence[Series]) -> list[str]:
    """What only one side has, which no comparison tells of."""
    both = _matched(base, new)
    alone = (
        ("first", [each for each in base if all(each is not before for before, _ in both)]),
        ("second", [each for each in new if all(each is not after for _, after in both)]),
    )
    return [f"only the {side} has {_told(series)}" for side, series in alone if series]


def exit_code(comparisons: Sequence[Comparison]) -> Exit:
    """FAILED for a regression, INCONCLUSIVE if nothing at all could be told."""
    outcomes = {each.outcome for each in comparisons}
    if Outcome.REGRESSED in outcomes:
        return Exit.FAILED
    return Exit.OK if Outcome.IMPROVED in outcomes else Exit.INCONCLUSIVE


def _judge(base: Series, new: Series, alpha: float, is_paired: bool) -> Comparison:
    before, after = _paired_boots(base, new) if is_paired else (base.boots, new.boots)
    change, why = _change(before, after, alpha, is_paired)
    is_higher = separation.is_above(after, before)
    is_separated = is_higher or separation.is_above(before, after)
    if is_paired:
        sizes = [(len(a), len(b)) for a, b in zip(before, after, strict=True)]
        p_separated = separation.p_within(sizes)
    else:
        p_separated = separation.p_between(len(before), len(after))
    if is_separated and p_separated <= alpha:
        outcome = _outcome(is_higher, base.better)
    elif change and not change.interval[0] <= 0 <= change.interval[1]:
        outcome = _outcome(change.estimate > 0, base.better)
    else:
        outcome = Outcome.INCONCLUSIVE
    return Comparison(
        variant=_variant(base, new),
        metric=base.metric,
        unit=base.unit,
        better=base.better,
        base=before,
        new=after,
        outcome=outcome,
        change=change,
        is_separated=is_separated,
        p_separated=p_separated,
        why=why,
    )


def _variant(base: Series, new: Series) -> str:
    return base.variant if base.labels == new.labels else f"{base.variant} -> {new.variant}"


def _change(base: Boots, new: Boots, alpha: float, is_paired: bool) -> tuple[Change | None, str]:
    try:
        change = (paired if is_paired else unpaired).compare(base, new, alpha)
    except NoRatio as error:
        return None, f"no relative change: {error}"
    return change, "" if change else "one run of a side has no spread: two or more are needed"


def _outcome(is_higher: bool, better: Better) -> Outcome:
    return Outcome.IMPROVED if is_higher == (better == "higher") else Outcome.REGRESSED


def _paired_boots(base: Series, new: Series) -> tuple[Boots, Boots]:
    for series in (base, new):
        if len(set(series.ids)) != len(series.ids):
            raise InputError(f"{series.metric}: runs of one name cannot be paired")
    before, after = (dict(zip(each.ids, each.boots, strict=True)) for each in (base, new))
    common = [name for name in before if name in after]
    if not common:
        raise InputError(
            f"{base.metric}: no run of the first has its pair in the second: "
            f"{_names(base.ids)} and {_names(new.ids)}",
            hint="name runs that go together alike, or compare without --paired",
        )
    return [before[name] for name in common], [after[name] for name in common]


def _matched(base: Sequence[Series], new: Sequence[Series]) -> list[tuple[Series, Series]]:
    is_single = all(len({each.labels for each in side}) == 1 for side in (base, new))
    found = []
    for before in base:
        for after in new:
            is_same = (before.metric, before.unit) == (after.metric, after.unit)
            if is_same and (is_single or before.labels == after.labels):
                found.append((before, after))
    return found


def _told(series: Sequence[Series]) -> str:
    return _names([" ".join((*each.labels, each.metric)) for each in series])


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
