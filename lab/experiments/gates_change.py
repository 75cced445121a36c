"""Gates on a change between two sides: an effect, its absence, or what it is."""

from __future__ import annotations

from lab.experiments.comparison import Comparison
from lab.experiments.findings import Verdict
from lab.experiments.outcome import Outcome, bare_percent, number, percent
from lab.stats.change import Change
from lab.stats.separation import is_above
from lab.topology.experiment import Direction


def effect(
    comparison: Comparison,
    least: float,
    direction: Direction,
    *,
    separated: bool,
    alpha: float,
    least_claimed: float | None = None,
) -> Outcome:
    """At least `least` in `direction`, and shown to be a change at all; negative: no worse so far.

    `least_claimed` is the smallest difference of means that the harness allows to claim.
    """
    sign = 1 if direction is Direction.HIGHER else -1
    sides = (comparison.variant.boots, comparison.baseline.boots)
    apart = is_above(*sides) if sign > 0 else is_above(*reversed(sides))
    change = comparison.change
    by_ranges = separated and apart and comparison.separation_p <= alpha
    if change is None:
        return _outcome(comparison, Verdict.INCONCLUSIVE, comparison.missing)

    gain = sign * change.estimate
    low, high = sorted(sign * bound for bound in change.interval)
    # No worse than so much is shown against that much, a gain against no change.
    must_exceed = min(least, 0.0)
    shown = low > must_exceed or by_ranges
    if high < least or (least >= 0 and high <= 0):
        why = f"{_interval(change)} falls short of {_limit(sign * least)}"
        return _outcome(comparison, Verdict.FAIL, why)
    if gain < least:
        return _unsettled(
            comparison,
            f"{_interval(change)} is not clearly short of {_limit(sign * least)}",
            sign * least,
        )
    if separated and not apart:
        # Of a few noisy trials a single one may overlap: that refutes nothing.
        why = f"{_interval(change)}, but ranges overlap: {_ranges(comparison)}"
        return _outcome(comparison, Verdict.INCONCLUSIVE, why)
    if not shown:
        why = f"{_interval(change)} does not exclude {_limit(sign * must_exceed)}"
        return _unsettled(comparison, why, sign * must_exceed)
    difference = abs(_mean(comparison.variant.values) - _mean(comparison.baseline.values))
    if least >= 0 and least_claimed is not None and difference < least_claimed:
        why = (
            f"a difference of {number(difference)} is not claimed: three times the spread of the"
            f" harness' own cost is {number(least_claimed)}"
        )
        return _outcome(comparison, Verdict.INCONCLUSIVE, why)
    why = _interval(change)
    if separated:
        why += f"; ranges do not overlap: {_ranges(comparison)}"
    if not low > must_exceed:
        why += f", which rules out chance (exact p = {comparison.separation_p:.2g})"
    return _outcome(comparison, Verdict.PASS, why)


def within(comparison: Comparison, most: float) -> Outcome:
    """No further apart than `most`, either way."""
    change = comparison.change
    if change is None:
        return _outcome(comparison, Verdict.INCONCLUSIVE, comparison.missing)
    low, high = change.interval
    span = f"±{bare_percent(most)}"
    if -most <= low and high <= most:
        why = f"{_interval(change)} lies within {span}"
        verdict = Verdict.PASS
    elif high < -most or low > most:
        why = f"{_interval(change)} lies outside {span}"
        verdict = Verdict.FAIL
    else:
        near = (-most, most) if abs(change.estimate) < most else (_nearer(change, most),)
        # No ratio falls by more than all of it.
        bounds = [bound for bound in near if bound > -1]
        return _unsettled(
            comparison, f"{_interval(change)} is neither within nor outside {span}", *bounds
        )
    return _outcome(comparison, verdict, why)


def report(comparison: Comparison) -> Outcome:
    """The change, of which nothing is claimed."""
    change = comparison.change
    why = _interval(change) if change else comparison.missing
    return _outcome(comparison, Verdict.REPORTED, why)


def _unsettled(comparison: Comparison, why: str, *excluded: float) -> Outcome:
    more = comparison.more_boots(*excluded)
    if comparison.design == "one boot":
        why += "; more boots are needed"
    return _outcome(comparison, Verdict.INCONCLUSIVE, why, more)


def _outcome(
    comparison: Comparison, verdict: Verdict, why: str, more_boots: int | None = None
) -> Outcome:
    change = comparison.change
    low, high = change.interval if change else (None, None)
    return Outcome(
        verdict,
        why,
        "change",
        estimate=change.estimate if change else _plain_change(comparison),
        low=low,
        high=high,
        detectable=change.detectable if change else None,
        more_boots=more_boots,
        baseline=comparison.baseline,
        variant=comparison.variant,
        pairs=change.pairs if change else (),
        notes=comparison.notes,
    )


def _plain_change(comparison: Comparison) -> float | None:
    """Of the means, where there is no more to go by."""
    before = _mean(comparison.baseline.values)
    return _mean(comparison.variant.values) / before - 1 if before > 0 else None


def _interval(change: Change) -> str:
    low, high = change.interval
    return f"{percent(change.estimate)} ({percent(low)} .. {percent(high)})"


def _limit(change: float) -> str:
    return percent(change) if change else "no change"


def _ranges(comparison: Comparison) -> str:
    return " against ".join(
        f"{number(min(side.values))} .. {number(max(side.values))}"
        for side in (comparison.variant, comparison.baseline)
    )


def _nearer(change: Change, most: float) -> float:
    return most if change.estimate > 0 else -most


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
