"""How much boots differ among each other, and trials within a boot.

The analysis of variance estimates of a one-way random effects model, groups of any size: Searle,
Casella, McCulloch, Variance Components (1992), chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np


@dataclass(frozen=True)
class Components:
    """Standard deviations in the unit of the values; None where there is nothing to tell it from:
    `within` needs a group of two values, `between` two groups as well."""

    within: float | None
    between: float | None


def components(groups: Sequence[Sequence[float]]) -> Components:
    """`groups` hold the values of a boot each; none is empty."""
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    sizes = np.array([len(group) for group in arrays])
    total = int(sizes.sum())
    if total == len(arrays):
        return Components(None, None)
    means = np.array([group.mean() for group in arrays])
    # Squared deviations, not differences of squares: values are alike in many digits.
    inside = sum(
        float(((group - mean) ** 2).sum()) for group, mean in zip(arrays, means, strict=True)
    )
    mean_square_within = inside / (total - len(arrays))
    if len(arrays) < 2:
        return Components(sqrt(mean_square_within), None)
    grand_mean = float((sizes * means).sum()) / total
    mean_square_between = float((sizes * (means - grand_mean) ** 2).sum()) / (len(arrays) - 1)
    # What the size of a group is with all of them alike.
    size = (total - float((sizes**2).sum()) / total) / (len(arrays) - 1)
    # By chance the estimate is negative where boots do not differ: 0 is the nearest that can be.
    variance_between = max(0.0, (mean_square_between - mean_square_within) / size)
    return Components(sqrt(mean_square_within), sqrt(variance_between))
