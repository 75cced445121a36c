"""Shares of trials: exact intervals, and what so many trials could have shown."""

from __future__ import annotations

from math import ceil, log, log1p

import numpy as np
from scipy import stats

MAX_TRIALS = 5000


def interval(count: int, trials: int, alpha: float = 0.01) -> tuple[float, float]:
    """Where a share is, with confidence 1 - alpha: Clopper and Pearson, Biometrika 26 (1934)."""
    found = stats.binomtest(count, trials).proportion_ci(1 - alpha, method="exact")
    return float(found.low), float(found.high)


def detectable(trials: int, alpha: float = 0.01) -> float:
    """The smallest share of which `trials` trials show one, but for a chance of alpha."""
    return float(1 - alpha ** (1 / trials))


def trials_needed(share: float, alpha: float = 0.01) -> int:
    """The fewest trials that show one of `share` (above 0), but for a chance of alpha."""
    if share >= 1:
        return 1
    # A share that n trials just detect must not need n + 1 of them for rounding.
    return max(1, ceil(log(alpha) / log1p(-share) - 1e-9))


def trials_to_exclude(share: float, trials: int, number: float, alpha: float = 0.01) -> int | None:
    """Trials, more than `trials`, whose interval leaves out `number`, were `share` to stay.

    None if it takes more than MAX_TRIALS.
    """
    sizes = np.arange(trials + 1, MAX_TRIALS + 1)
    counts = np.round(share * sizes)
    if share < number:
        excludes = stats.beta.isf(alpha / 2, counts + 1, sizes - counts) < number
    else:
        excludes = stats.beta.ppf(alpha / 2, counts, sizes - counts + 1) > number
    return int(sizes[np.argmax(excludes)]) if np.any(excludes) else None
