"""Two sides measured within the same boots: each boot compares them, what boots differ in cancels.

The paired t test on logarithms of ratios. A boot's figure is the geometric mean of its values, so
that a change means the same in both directions, and in every unit.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from lab.stats.change import Boots, Change, are_positive, deviation, log_means, shares


def compare(baseline: Boots, variant: Boots, alpha: float = 0.01) -> Change | None:
    """The change from `baseline` to `variant`, whose boots go together one by one.

    None for fewer than two boots: they have no spread. Where a value is zero or negative there are
    no logarithms: differences of boots' means as shares of the baseline's mean take their place,
    and NoRatio is raised if that is not positive either.
    """
    if len(baseline) != len(variant):
        raise ValueError(f"{len(baseline)} boots cannot be paired with {len(variant)}")
    if len(baseline) < 2:
        return None
    is_log = are_positive(baseline, variant)
    if is_log:
        differences = log_means(variant) - log_means(baseline)
        pairs = np.expm1(np.minimum(differences, 700))
    elif not np.any([np.any(boot) for boot in (*baseline, *variant)]):
        # Nothing on either side, such as no lost packets: no change, and no spread.
        differences = pairs = np.zeros(len(baseline))
    else:
        differences = pairs = shares(variant, baseline) - shares(baseline, baseline)
    spread = deviation(differences)
    boots = len(differences)
    return Change(
        mean=float(np.mean(differences)),
        standard_error=spread / sqrt(boots),
        spread=spread,
        df=boots - 1,
        boots=boots,
        alpha=alpha,
        is_log=is_log,
        pairs=tuple(float(pair) for pair in pairs),
    )
