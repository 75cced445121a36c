"""How large an effect so many boots would show, and how many boots an effect needs.

The power of the t test by the noncentral t distribution: Johnson, Kotz, Balakrishnan, Continuous
Univariate Distributions 2 (1995), chapter 31. The far tail is left out, as it never matters.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np
from scipy import optimize, stats

POWER = 0.8
MAX_BOOTS = 200
# Midpoints of equal parts of the chi distribution: the integral to four digits.
_PARTS = (np.arange(4000) + 0.5) / 4000


@lru_cache(maxsize=4096)
def noncentrality(df: float, alpha: float, power: float = POWER) -> float:
    """How many standard errors an effect must have to be shown with `power`, two-sided."""
    threshold = float(stats.t.isf(alpha / 2, df))
    spread = np.sqrt(stats.chi2.ppf(_PARTS, df) / df)

    def missing(effect: float) -> float:
        return float(np.mean(stats.norm.cdf(effect - threshold * spread))) - power

    return float(optimize.brentq(missing, 0, 4 * threshold + 10, xtol=1e-4))


def boots_needed(
    distance: float, spread: float, alpha: float, *, sides: int = 1, least: int = 2
) -> int | None:
    """The fewest boots (a side) that show `distance` with POWER; None for over MAX_BOOTS.

    `spread` is the standard deviation of one boot, of a difference of two for `sides` 2 (boots of
    each variant alone); both in the unit of `distance`.
    """
    for boots in range(max(2, least), MAX_BOOTS + 1):
        # Cheap first: the normal distribution needs fewer boots than any t.
        standard_errors = abs(distance) * sqrt(boots)
        if standard_errors < spread * float(_normal(alpha)):
            continue
        if standard_errors >= spread * noncentrality(sides * (boots - 1), alpha):
            return boots
    return None


@lru_cache(maxsize=64)
def _normal(alpha: float) -> float:
    return float(stats.norm.isf(alpha / 2) + stats.norm.ppf(POWER))
