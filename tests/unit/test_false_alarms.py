"""Simulated labs: how often a comparison claims a change that is none, and finds one that is.

The noise is that of the design notes: boots differ by 2 % (standard deviation), samples of a boot
by 1 %, 10 samples a boot and side; alpha is 0.01. Seeded: the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp

import numpy as np
import pytest

from lab.stats import paired, sequential, unpaired
from lab.stats.change import Change

ALPHA = 0.01
BETWEEN = 0.02
WITHIN = 0.01
SAMPLES = 10
COMPARISONS = 1000
# 1 % of 1000, and one and a half standard deviations of such a count more.
MOST_FALSE_ALARMS = 0.015

Compare = Callable[..., Change | None]


def comparisons(
    boots: int, effect: float, *, shared: bool, seed: int, samples: int = SAMPLES
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Both sides' values of `boots` boots each; `shared` boots are the same for both."""
    random = np.random.default_rng(seed)
    for _ in range(COMPARISONS):
        before = random.normal(0, BETWEEN, (boots, 1))
        after = before if shared else random.normal(0, BETWEEN, (boots, 1))
        noise = random.normal(0, WITHIN, (2, boots, samples))
        yield 100 * np.exp(before + noise[0]), 100 * (1 + effect) * np.exp(after + noise[1])


def claimed(
    compare: Compare, boots: int, effect: float, *, shared: bool, seed: int, samples: int = SAMPLES
) -> float:
    """The share of comparisons whose interval excludes no change."""
    found = 0
    for before, after in comparisons(boots, effect, shared=shared, seed=seed, samples=samples):
        change = compare(before, after, ALPHA)
        assert change is not None
        low, high = change.interval
        found += not low <= 0 <= high
    return found / COMPARISONS


@pytest.mark.parametrize("boots", [2, 3, 5, 10])
def test_paired_boots_raise_no_more_false_alarms_than_alpha(boots: int) -> None:
    assert claimed(paired.compare, boots, 0, shared=True, seed=11) <= MOST_FALSE_ALARMS


@pytest.mark.parametrize("boots", [2, 3, 5, 10])
def test_alternating_boots_raise_no_more_false_alarms_than_alpha(boots: int) -> None:
    assert claimed(unpaired.compare, boots, 0, shared=False, seed=12) <= MOST_FALSE_ALARMS


def test_trials_of_one_boot_raise_no_more_false_alarms_than_alpha() -> None:
    def compare(before: np.ndarray, after: np.ndarray, alpha: float) -> Change | None:
        return paired.compare(before.reshape(-1, 1), after.reshape(-1, 1), alpha)

    assert claimed(compare, 1, 0, shared=True, seed=13, samples=5) <= MOST_FALSE_ALARMS


def ever_claimed(compare: Compare, effect: float, *, shared: bool, most_boots: int = 10) -> float:
    """The share of runs of which a look, after each boot from the second on, claims a change."""
    looks = most_boots - 1
    found = 0
    for before, after in comparisons(most_boots, effect, shared=shared, seed=14):
        for look in range(1, looks + 1):
            alpha = sequential.alpha_at(look, looks, ALPHA)
            change = compare(before[: look + 1], after[: look + 1], alpha)
            assert change is not None
            if change.p_value < alpha:
                found += 1
                break
    return found / COMPARISONS


@pytest.mark.parametrize(("compare", "shared"), [(paired.compare, True), (unpaired.compare, False)])
def test_looks_are_paid_for(compare: Compare, shared: bool) -> None:
    assert ever_claimed(compare, 0, shared=shared) <= MOST_FALSE_ALARMS


def test_looks_find_what_is_there() -> None:
    assert ever_claimed(paired.compare, 0.02, shared=True) >= 0.95


def test_looks_not_paid_for_raise_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the simulation would show if nothing were done: it can fail."""
    monkeypatch.setattr(sequential, "alpha_at", lambda look, looks, alpha: alpha)
    assert ever_claimed(paired.compare, 0, shared=True) > 2 * MOST_FALSE_ALARMS


@pytest.mark.parametrize(
    ("boots", "effect", "least", "most"),
    [(5, 0.05, 0.95, 1), (5, 0.02, 0.95, 1), (3, 0.02, 0.38, 0.50), (3, 0.05, 0.95, 1)],
)
def test_pairs_find_small_effects(boots: int, effect: float, least: float, most: float) -> None:
    assert least <= claimed(paired.compare, boots, effect, shared=True, seed=15) <= most


@pytest.mark.parametrize(
    ("boots", "effect", "least", "most"), [(5, 0.05, 0.58, 0.74), (10, 0.05, 0.97, 1)]
)
def test_alternating_boots_find_larger_ones(
    boots: int, effect: float, least: float, most: float
) -> None:
    assert least <= claimed(unpaired.compare, boots, effect, shared=False, seed=16) <= most


def test_the_detectable_change_is_found_as_often_as_it_says() -> None:
    """With the spread known from elsewhere: power 0.8."""
    spread = WITHIN * (2 / SAMPLES) ** 0.5
    from lab.stats.power import noncentrality

    effect = exp(noncentrality(4, ALPHA) * spread / 5**0.5) - 1
    assert claimed(paired.compare, 5, effect, shared=True, seed=17) == pytest.approx(0.8, abs=0.04)
