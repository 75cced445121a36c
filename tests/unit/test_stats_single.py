"""Figures of one side: shares, means, and the alpha of repeated looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.stats import binomial, intervals, sequential


def test_a_share_has_the_exact_interval() -> None:
    low, high = binomial.interval(3, 10, alpha=0.05)
    # Clopper and Pearson (1934), by the beta distribution.
    assert low == pytest.approx(stats.beta.ppf(0.025, 3, 8))
    assert high == pytest.approx(stats.beta.ppf(0.975, 4, 7))
    assert binomial.interval(0, 10)[0] == 0
    assert binomial.interval(10, 10)[1] == 1


@given(trials=st.integers(1, 500))
def test_trials_needed_for_what_they_detect(trials: int) -> None:
    assert binomial.trials_needed(binomial.detectable(trials)) == trials


def test_no_failure_in_so_many_trials() -> None:
    # (1 - 0.369)^10 = 0.01
    assert binomial.detectable(10) == pytest.approx(0.369, abs=5e-4)
    assert binomial.trials_needed(0.5) == 7
    assert binomial.trials_needed(1.0) == 1


def test_trials_until_a_share_is_told_from_a_number() -> None:
    needed = binomial.trials_to_exclude(0.4, 5, 0.5)
    assert needed is not None
    assert binomial.interval(round(0.4 * needed), needed)[1] < 0.5
    below = binomial.trials_to_exclude(0.6, 5, 0.5)
    assert below is not None
    assert binomial.interval(round(0.6 * below), below)[0] > 0.5
    assert binomial.trials_to_exclude(0.4999, 5, 0.5) is None


def test_the_mean_of_boots_has_students_interval() -> None:
    mean = intervals.over_boots([(1.0, 3.0), (4.0,), (3.0, 3.0)])
    expected = stats.ttest_1samp([2.0, 4.0, 3.0], 0).confidence_interval(0.99)
    assert mean is not None
    assert (mean.low, mean.high) == pytest.approx((expected.low, expected.high))
    assert mean.boots_to_exclude(2.9) is None or mean.boots_to_exclude(2.9) > 3  # type: ignore[operator]
    assert mean.boots_to_exclude(1.0) is not None


def test_the_bootstrap_of_trials_is_repeatable() -> None:
    values = [1.0, 2.0, 2.5, 4.0, 9.0]
    mean = intervals.over_trials(values)
    assert mean is not None
    assert mean == intervals.over_trials(values)
    assert 1.0 <= mean.low < mean.estimate == 3.7 < mean.high <= 9.0


def test_one_value_has_no_interval_and_equal_ones_have_no_width() -> None:
    assert intervals.over_trials([1.0]) is None
    assert intervals.over_boots([(1.0, 2.0)]) is None
    mean = intervals.over_trials([2.0, 2.0, 2.0])
    assert mean is not None
    assert (mean.low, mean.high) == (2, 2)


@given(looks=st.integers(1, 400))
def test_all_looks_together_spend_alpha(looks: int) -> None:
    spent = [sequential.alpha_at(look, looks) for look in range(1, looks + 1)]
    assert sum(spent) == pytest.approx(0.01)
    assert all(each > 0 for each in spent)


def test_one_look_has_all_of_alpha() -> None:
    assert sequential.alpha_at(1, 1, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("look", [0, 4])
def test_only_planned_looks_have_alpha(look: int) -> None:
    with pytest.raises(ValueError, match=f"look {look} of 3"):
        sequential.alpha_at(look, 3)
