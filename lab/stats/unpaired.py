"""Two sides that need boots of their own, which alternate: boots' means are compared.

Welch's t test (Biometrika 34, 1947) on the logarithms of boots' geometric means. Samples are never
pooled over boots: what boots differ in would pass for a difference of the sides.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from lab.stats.change import (
    Boots,
    Change,
    are_positive,
    deviation,
    log_means,
    shares,
    welch_df,
)


def compare(baseline: Boots, variant: Boots, alpha: float = 0.01) -> Change | None:
    """The change from `baseline` to `variant`; None for fewer than two boots of either.

    Zero or negative values are treated, and NoRatio is raised, as in paired.compare.
    """
    if min(len(baseline), len(variant)) < 2:
        return None
    is_log = are_positive(baseline, variant)
    if is_log:
        before, after = log_means(baseline), log_means(variant)
    elif not np.any([np.any(boot) for boot in (*baseline, *variant)]):
        before, after = np.zeros(len(baseline)), np.zeros(len(variant))
    else:
        before, after = shares(baseline, baseline), shares(variant, baseline)
    variances = (deviation(before) ** 2, deviation(after) ** 2)
    sizes = (len(before), len(after))
    return Change(
        mean=float(np.mean(after) - np.mean(before)),
        standard_error=sqrt(variances[0] / sizes[0] + variances[1] / sizes[1]),
        spread=sqrt(sum(variances)),
        df=welch_df(variances, sizes),
        boots=min(sizes),
        alpha=alpha,
        is_log=is_log,
        sides=2,
    )
