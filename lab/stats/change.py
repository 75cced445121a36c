"""A relative change between two sides with its t interval: what every comparison comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p

import numpy as np
from scipy import stats

from lab.stats.power import boots_needed, noncentrality

# The values of one side, boot by boot.
Boots = Sequence[Sequence[float]]


class NoRatio(ValueError):
    """The baseline is zero (or negative): there is nothing that a change could be relative to."""


@dataclass(frozen=True)
class Change:
    """A mean of `boots` boots with its standard error, `df` degrees of freedom.

    With `is_log` mean and errors are of the logarithm of the ratio, else of the difference as a
    share of the baseline. `sides` is 1 for paired boots, 2 for boots of each side alone; `spread`
    is the standard deviation of a boot (of the difference of two). All relative changes are
    0.12 for +12 %.
    """

    mean: float
    standard_error: float
    spread: float
    df: float
    boots: int
    alpha: float
    is_log: bool
    sides: int = 1
    pairs: tuple[float, ...] = ()

    @property
    def estimate(self) -> float:
        return self._relative(self.mean)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the change is with confidence 1 - alpha."""
        if self.standard_error == 0:
            return self.estimate, self.estimate
        width = float(stats.t.isf(self.alpha / 2, self.df)) * self.standard_error
        return self._relative(self.mean - width), self._relative(self.mean + width)

    @property
    def p_value(self) -> float:
        """Two-sided, of no change."""
        if self.standard_error == 0:
            return 1.0 if self.mean == 0 else 0.0
        return float(2 * stats.t.sf(abs(self.mean) / self.standard_error, self.df))

    @property
    def detectable(self) -> float:
        """The smallest increase that as many boots would have shown with power 0.8."""
        if self.standard_error == 0:
            return 0.0
        return self._relative(noncentrality(self.df, self.alpha) * self.standard_error)

    def boots_to_exclude(self, change: float) -> int | None:
        """Boots (a side) whose interval leaves out `change`, were estimate and spread to stay.

        With power 0.8; None if it takes more than power.MAX_BOOTS, or the estimate is `change`.
        """
        if self.is_log and change <= -1:
            return None
        distance = self.mean - (log1p(change) if self.is_log else change)
        return boots_needed(
            distance, self.spread, self.alpha, sides=self.sides, least=self.boots + 1
        )

    def _relative(self, value: float) -> float:
        if not self.is_log:
            return value
        # An interval of two noisy boots may reach beyond what a float holds.
        return expm1(value) if value < 700 else float("inf")


def are_positive(*sides: Boots) -> bool:
    return all(value > 0 for side in sides for boot in side for value in boot)


def log_means(boots: Boots) -> np.ndarray:
    """The logarithm of each boot's geometric mean."""
    return np.array([np.mean(np.log(boot)) for boot in boots])


def shares(boots: Boots, baseline: Boots) -> np.ndarray:
    """Each boot's mean as a share of the baseline's mean over boots. Raises NoRatio."""
    reference = float(np.mean([np.mean(boot) for boot in baseline]))
    if reference <= 0:
        raise NoRatio(f"the baseline's mean is {reference:g}")
    return np.array([np.mean(boot) for boot in boots]) / reference


def deviation(values: np.ndarray) -> float:
    """Of two values or more, as a sample; 0 where only rounding tells equal values apart."""
    found = float(np.std(values, ddof=1))
    return 0.0 if found < 1e-12 * max(1.0, float(np.max(np.abs(values)))) else found


def welch_df(variances: tuple[float, float], sizes: tuple[int, int]) -> float:
    """Welch-Satterthwaite: B. L. Welch, Biometrika 34 (1947). Infinite for no spread at all."""
    errors = [variance / size for variance, size in zip(variances, sizes, strict=True)]
    total = sum(errors)
    if not total:
        return float("inf")
    # By shares of the whole, since a square of the square of a figure may be too large a number.
    return 1 / sum(
        (error / total) ** 2 / (size - 1) for error, size in zip(errors, sizes, strict=True)
    )
