"""Ranges that do not touch: every value of one side beyond every value of the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scipy import special

from lab.stats.change import Boots


def is_above(upper: Boots, lower: Boots) -> bool:
    """Whether every value of `upper` is above every one of `lower`."""
    return min(value for boot in upper for value in boot) > max(
        value for boot in lower for value in boot
    )


def p_within(sizes: Sequence[tuple[int, int]]) -> float:
    """The exact two-sided p-value of separation, of values that were exchangeable within boots.

    `sizes` has the number of values of both sides in each boot. Of all ways in which the labels
    could have fallen within boots at most two separate the sides (a permutation test: Pitman, JRSS
    Supplement 4, 1937). One boot of 5 and 5: 2 / C(10, 5) = 0.0079.
    """
    return min(1.0, 2 / prod(int(special.comb(a + b, a, exact=True)) for a, b in sizes))


def p_between(baseline_boots: int, variant_boots: int) -> float:
    """The same where whole boots are of one side or the other: boots are what is exchanged."""
    return p_within([(baseline_boots, variant_boots)])
