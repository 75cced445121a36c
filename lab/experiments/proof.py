"""What a passing check is worth: it must be able to fail, and must have been tried enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from lab.experiments.findings import Verdict
from lab.experiments.outcome import Outcome, number
from lab.results.trial import Trial
from lab.stats.binomial import trials_needed
from lab.topology.experiment import Times


def fails_before(
    outcome: Outcome, before: Outcome | None, old: str, alpha: float, *, times: float | None = None
) -> Outcome:
    """A fix is proven only by a check that fails on `old`; `before` is what came of it there.

    Where the old fails now and then only, the new must have been tried often enough to have
    failed as well, but for a chance of alpha. With `times`, the new has made so many times the
    operations of the old, and counts as so many times its trials.
    """
    if outcome.verdict is not Verdict.PASS:
        return outcome
    if before is None or before.verdict is not Verdict.FAIL:
        found = f"{before.verdict}: {before.why}" if before else "nothing was measured there"
        why = f"unproven test: the check never failed on {old} ({found}); here {outcome.why}"
        return replace(outcome, verdict=Verdict.INCONCLUSIVE, why=why)
    if before.failing_share and outcome.failing_share is not None:
        needed = trials_needed(before.failing_share, alpha)
        tried = outcome.trials if times is None else before.trials * times
        if tried < needed:
            return _may_be_luck(outcome, old, before.failing_share, tried, needed)
    return replace(outcome, why=f"{outcome.why}; fails on {old}: {before.why}")


def _may_be_luck(
    outcome: Outcome, old: str, failing_share: float, tried: float, needed: int
) -> Outcome:
    boots = len(outcome.variant.boots) if outcome.variant else 1
    why = (
        f"{number(tried)} trials without failure may be luck: {old} fails in {failing_share:.0%}"
        f" of them, which takes {needed} trials to rule out"
    )
    more_boots = ceil(boots * (needed - tried) / tried) if tried else None
    return replace(outcome, verdict=Verdict.INCONCLUSIVE, why=why, more_boots=more_boots)


def times_the_operations(
    needs: Times, variants: Sequence[str], trials: Sequence[Trial]
) -> float | None:
    """How many times the `needs.metric` of `needs.of` `variants` have; None where that has none."""
    of = _total(needs.metric, [needs.of], trials)
    return _total(needs.metric, variants, trials) / of if of else None


def tried_enough(outcome: Outcome, needs: Times, times: float | None) -> Outcome:
    """A pass counts only with as many operations as `needs` says; `times` is what there are."""
    if outcome.verdict is not Verdict.PASS:
        return outcome
    if times is None:
        why = f"{needs.of} has no {needs.metric} to compare with; {outcome.why}"
    elif times < needs.times:
        why = (
            f"{needs.times:g} times the {needs.metric} of {needs.of} are needed, {times:.3g} times"
            f" were made; {outcome.why}"
        )
    else:
        why = f"{outcome.why}; {times:.3g} times the {needs.metric} of {needs.of}"
        return replace(outcome, why=why)
    return replace(outcome, verdict=Verdict.INCONCLUSIVE, why=why)


def _total(metric: str, variants: Sequence[str], trials: Sequence[Trial]) -> float:
    return sum(
        trial.value(metric) or 0 for trial in trials if trial.variant in variants and trial.is_whole
    )
