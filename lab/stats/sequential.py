"""Looking at a run while it is being made, without more false alarms for it.

Alpha is spent over the looks by the Pocock-type spending function of Lan and DeMets (Biometrika
70, 1983): by the share t of the looks, alpha * ln(1 + (e - 1) t). It leaves early looks enough to
stop at large effects, which is what a run of few boots is after.

A look is allowed what was spent since the one before. The boundaries that Lan and DeMets compute
for such a spending are wider, but of normal statistics, and a t statistic of three boots is none.
That the increments sum up to alpha holds for any statistics however they depend (Bonferroni): the
price is a somewhat wider interval at the last looks.
"""

from __future__ import annotations

from math import e, log1p


def spent(share: float, alpha: float = 0.01) -> float:
    """The alpha that is spent when `share` (0 to 1) of the looks have been taken."""
    return alpha * log1p((e - 1) * share)


def alpha_at(look: int, looks: int, alpha: float = 0.01) -> float:
    """The alpha of look number `look` (from 1) of `looks` planned ones."""
    if not 1 <= look <= looks:
        raise ValueError(f"look {look} of {looks}")
    return spent(look / looks, alpha) - spent((look - 1) / looks, alpha)
