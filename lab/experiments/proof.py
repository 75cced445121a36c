"""What a passing check is worth: it must be able to fail, and must have been tried enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.experiments.findings import Verdict
from lab.experiments.outcome import Outcome, number
from lab.results.trial import Trial
from lab.stats.binomial import trials_needed
from lab.topology.experiment import Times


def fails_before(outcome: Outcome, before: Outcome | None, old: str, alpha: float) -> Outcome:
    """A fix is proven only by a check that fails on `old`; `before` is what came of it there.

    Where the old fails now and then only, the new must have been tried often enough to have
    failed as well, but for a chance of alpha.
    """
    if outcome.verdict is not Verdict.PASS:
        return outcome
    if before is None or before.verdict is not Verdict.FAIL:
        found = f"{before.verdict}: {before.why}" if before else "nothing was measured there"
        why = f"unproven test: the check never failed on {old} ({found}); here {outcome.why}"
        return replace(outcome, verdict=Verdict.INCONCLUSIVE, why=why)
    if before.failing_share and outcome.failing_share is not None:
        needed = trials_needed(before.failing_share, alpha)
        if outcome.trials < needed:
            boots = len(outcome.variant.boots) if outcome.variant else 1
            more_boots = -(-(needed - outcome.trials) * boots // outcome.trials)
            why = (
                f"{outcome.trials} trials without failure may be luck: {old} failed in"
                f" {before.failing_share:.0%} of its trials, which {needed} trials would show"
            )
            return replace(outcome, verdict=Verdict.INCONCLUSIVE, why=why, more_boots=more_boots)
    return replace(outcome, why=f"{outcome.why}; fails on {old}: {before.why}")


def tried_enough(
    outcome: Outcome, needs: Times, variants: Sequence[str], trials: Sequence[Trial]
) -> Outcome:
    """A pass counts only with as many operations as `needs` says."""
    if outcome.verdict is not Verdict.PASS:
        return outcome
    done = _total(needs.metric, variants, trials)
    needed = needs.times * _total(needs.metric, [needs.of], trials)
    if needed and done >= needed:
        return replace(outcome, why=f"{outcome.why}; {number(done)} {needs.metric}")
    if needed:
        why = (
            f"{needs.times:g} times the {needs.metric} of {needs.of} are needed:"
            f" {number(done)} of {number(needed)}; {outcome.why}"
        )
    else:
        why = f"{needs.of} has no {needs.metric} to compare with; {outcome.why}"
    return replace(outcome, verdict=Verdict.INCONCLUSIVE, why=why)


def _total(metric: str, variants: Sequence[str], trials: Sequence[Trial]) -> float:
    return sum(
        trial.value(metric) or 0 for trial in trials if trial.variant in variants and trial.is_whole
    )
