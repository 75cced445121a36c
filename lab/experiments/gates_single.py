"""Gates on one side alone: the share of its trials, its mean, each of its trials."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from lab.experiments.figures import Figures
from lab.experiments.findings import Verdict
from lab.experiments.outcome import Outcome, number, with_unit
from lab.stats import binomial, intervals
from lab.topology.experiment import Bound
from lab.units import counted

_ONE_BOOT_NOTE = "one boot: the interval is over its trials, how far boots differ is unknown"


def rate(figures: Figures, bound: Bound, alpha: float) -> Outcome:
    """The share of trials in which the figure is not 0.

    `>=` and `<=` pass if the share of the trials made satisfies them, and fail if the whole
    interval does not; `==` is about every trial.
    """
    trials = len(figures.all)
    count = sum(value != 0 for value in figures.values)
    share = count / trials
    low, high = binomial.interval(count, trials, alpha)
    detectable = binomial.detectable(trials, alpha)
    why = f"{count} of {counted(trials, 'trial')} ({low:.3g} .. {high:.3g})"
    more_boots = None
    verdict = Verdict.PASS
    if bound.relation == "==":
        if bound.holds(share):
            why += f"; {counted(trials, 'trial')} would have shown a rate of {detectable:.2g}"
        else:
            verdict = Verdict.FAIL
    elif not bound.holds(share):
        verdict = Verdict.FAIL
        if low <= bound.number <= high:
            verdict = Verdict.INCONCLUSIVE
            needed = binomial.trials_to_exclude(share, trials, bound.number, alpha)
            if needed:
                more_boots = ceil((needed - trials) * len(figures.by_boot) / trials)
            why += (
                f": not clearly {'below' if bound.relation == '>=' else 'above'} {bound.number:g}"
            )
    exact = bound.relation == "==" and bound.number in (0, 1)
    return Outcome(
        verdict,
        why,
        "rate",
        estimate=share,
        low=low,
        high=high,
        detectable=detectable,
        more_boots=more_boots,
        variant=figures.side(),
        notes=figures.notes,
        failing_share=abs(share - bound.number) if exact else None,
        trials=trials,
    )


def value(figures: Figures, bound: Bound, unit: str, alpha: float) -> Outcome:
    """The mean over boots: its whole interval must satisfy `bound`; `==` means in every boot."""
    boots = figures.side().boots
    # Trials of one boot replicate one another at least: a bootstrap of so few is no proof.
    mean = intervals.over_boots(boots if len(boots) > 1 else [[each] for each in boots[0]], alpha)
    if bound.relation == "==":
        met = all(bound.holds(sum(boot) / len(boot)) for boot in boots)
        shown = " .. ".join(with_unit(each, unit) for each in _range(figures.values))
        return _value(figures, mean, Verdict.PASS if met else Verdict.FAIL, f"trials: {shown}")
    if mean is None:
        why = f"{with_unit(figures.values[0], unit)} in a single trial: no spread to judge by"
        return _value(figures, mean, Verdict.INCONCLUSIVE, why)
    why = _interval(mean, unit)
    held = [bound.holds(each) for each in (mean.low, mean.high)]
    if all(held):
        return _value(figures, mean, Verdict.PASS, why)
    if not any(held):
        return _value(figures, mean, Verdict.FAIL, why)
    more_boots = None
    if len(boots) > 1 and (needed := mean.boots_to_exclude(bound.number)):
        more_boots = needed - len(boots)
    why += f": the interval includes {bound.number:g}"
    return _value(figures, mean, Verdict.INCONCLUSIVE, why, more_boots)


def each(figures: Figures, bound: Bound, unit: str, alpha: float) -> Outcome:
    """The figure of every trial; one that violates the bound is enough to fail."""
    violating = [each for each in figures.all if not bound.holds(each.value)]
    trials = len(figures.all)
    made = counted(trials, "trial")
    lowest, highest = _range(figures.values)
    why = f"{made}: {with_unit(lowest, unit)} .. {with_unit(highest, unit)}"
    if violating:
        first = violating[0]
        why = (
            f"{len(violating)} of {made}: {with_unit(first.value, unit)} in trial"
            f" {first.number} of boot {first.boot}; all are {with_unit(lowest, unit)} .."
            f" {with_unit(highest, unit)}"
        )
    outcome = _value(
        figures, _mean(figures, alpha), Verdict.FAIL if violating else Verdict.PASS, why
    )
    return replace(outcome, failing_share=len(violating) / trials, trials=trials)


def report(figures: Figures, unit: str, alpha: float) -> Outcome:
    """The mean, of which nothing is claimed."""
    mean = _mean(figures, alpha)
    why = _interval(mean, unit) if mean else f"{with_unit(figures.values[0], unit)} in one trial"
    return _value(figures, mean, Verdict.REPORTED, why)


def _mean(figures: Figures, alpha: float) -> intervals.Mean | None:
    if len(figures.by_boot) > 1:
        return intervals.over_boots(figures.side().boots, alpha)
    return intervals.over_trials(figures.values, alpha)


def _value(
    figures: Figures,
    mean: intervals.Mean | None,
    verdict: Verdict,
    why: str,
    more_boots: int | None = None,
) -> Outcome:
    one_boot = (_ONE_BOOT_NOTE,) if mean and len(figures.by_boot) == 1 else ()
    return Outcome(
        verdict,
        why,
        "value",
        estimate=mean.estimate if mean else figures.values[0],
        low=mean.low if mean else None,
        high=mean.high if mean else None,
        more_boots=more_boots,
        variant=figures.side(),
        notes=(*figures.notes, *one_boot),
    )


def _interval(mean: intervals.Mean, unit: str) -> str:
    return f"{with_unit(mean.estimate, unit)} ({number(mean.low)} .. {number(mean.high)})"


def _range(values: tuple[float, ...]) -> tuple[float, float]:
    return min(values), max(values)
