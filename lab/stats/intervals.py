"""Where the mean of one side is: by its boots, or by the trials where there is one boot only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

from lab.stats.change import Boots, deviation
from lab.stats.power import boots_needed

RESAMPLES = 5000
SEED = 1


@dataclass(frozen=True)
class Mean:
    """A mean with its interval, and the standard deviation of what it is the mean of."""

    estimate: float
    low: float
    high: float
    spread: float
    count: int
    alpha: float

    def boots_to_exclude(self, number: float) -> int | None:
        """As Change.boots_to_exclude."""
        return boots_needed(self.estimate - number, self.spread, self.alpha, least=self.count + 1)


def over_boots(boots: Boots, alpha: float = 0.01) -> Mean | None:
    """The mean of boots' means, by Student's t; None for fewer than two boots."""
    if len(boots) < 2:
        return None
    means = np.array([np.mean(boot) for boot in boots])
    estimate, spread = float(np.mean(means)), deviation(means)
    width = float(stats.t.isf(alpha / 2, len(means) - 1)) * spread / sqrt(len(means))
    return Mean(estimate, estimate - width, estimate + width, spread, len(means), alpha)


def over_trials(values: Sequence[float], alpha: float = 0.01) -> Mean | None:
    """The mean of trials that no boots replicate, by the bootstrap; None for fewer than two.

    Bias-corrected and accelerated: Efron, JASA 82 (1987). With few trials it is too narrow, and
    it knows nothing of what boots differ in: a figure to look at, no proof. Seeded, so that the
    same trials always have the same interval.
    """
    if len(values) < 2:
        return None
    sample = np.array(values, dtype=float)
    estimate, spread = float(np.mean(sample)), deviation(sample)
    if spread == 0:
        return Mean(estimate, estimate, estimate, 0.0, len(sample), alpha)
    found = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=1 - alpha,
        method="BCa",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return Mean(estimate, float(found.low), float(found.high), spread, len(sample), alpha)
