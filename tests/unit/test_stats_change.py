"""Changes between two sides, paired and unpaired: what an interval says and what it needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.stats import paired, power, separation, unpaired
from lab.stats.change import Boots, NoRatio

positive = st.floats(0.01, 1e6)
boots_strategy = st.lists(
    st.tuples(st.tuples(positive, positive), st.tuples(positive, positive)), min_size=2, max_size=6
)
compares = pytest.mark.parametrize("compare", [paired.compare, unpaired.compare])


def sides(pairs: list[tuple[tuple[float, ...], tuple[float, ...]]]) -> tuple[Boots, Boots]:
    return [one for one, _ in pairs], [other for _, other in pairs]


def test_paired_is_the_t_test_of_log_ratios() -> None:
    before, after = [100.0, 120.0, 90.0, 110.0], [112.0, 131.0, 103.0, 119.0]
    change = paired.compare([(x,) for x in before], [(x,) for x in after])
    expected = stats.ttest_rel(np.log(after), np.log(before))
    low, high = expected.confidence_interval(0.99)
    assert change is not None
    assert change.p_value == pytest.approx(expected.pvalue)
    assert change.interval == pytest.approx((math.expm1(low), math.expm1(high)))


def test_unpaired_is_welchs_t_test_of_logarithms() -> None:
    before, after = [100.0, 120.0, 90.0, 110.0], [112.0, 131.0, 133.0]
    change = unpaired.compare([(x,) for x in before], [(x,) for x in after])
    expected = stats.ttest_ind(np.log(after), np.log(before), equal_var=False)
    low, high = expected.confidence_interval(0.99)
    assert change is not None
    assert change.p_value == pytest.approx(expected.pvalue)
    assert change.interval == pytest.approx((math.expm1(low), math.expm1(high)))


def test_what_boots_differ_in_cancels_only_in_pairs() -> None:
    before = [(100.0, 101.0), (200.0, 201.0), (400.0, 405.0)]
    after = [(110.0, 111.0), (220.0, 221.0), (441.0, 444.0)]
    within, between = paired.compare(before, after), unpaired.compare(before, after)
    assert within is not None and between is not None
    assert within.p_value < 0.001 < 0.5 < between.p_value


@compares
@given(pairs=boots_strategy, scale=st.floats(0.001, 1000))
def test_units_do_not_matter(compare: object, pairs: list, scale: float) -> None:
    before, after = sides(pairs)
    change = compare(before, after)  # type: ignore[operator]
    scaled = compare(  # type: ignore[operator]
        [[value * scale for value in boot] for boot in before],
        [[value * scale for value in boot] for boot in after],
    )
    assert scaled.mean == pytest.approx(change.mean, abs=1e-9)
    assert scaled.spread == pytest.approx(change.spread, abs=1e-9)


@compares
@given(pairs=boots_strategy)
def test_swapping_the_sides_inverts_the_change(compare: object, pairs: list) -> None:
    before, after = sides(pairs)
    there, back = compare(before, after), compare(after, before)  # type: ignore[operator]
    assert there.mean == pytest.approx(-back.mean, abs=1e-9)
    assert there.p_value == pytest.approx(back.p_value, abs=1e-6)


@compares
def test_one_boot_has_no_spread(compare: object) -> None:
    assert compare([(1.0, 2.0)], [(1.1, 2.2)]) is None  # type: ignore[operator]


@compares
def test_equal_boots_have_a_change_without_doubt(compare: object) -> None:
    change = compare([(2.0,), (2.0,)], [(1.0,), (1.0,)])  # type: ignore[operator]
    assert change.estimate == pytest.approx(-0.5)
    assert change.interval == (change.estimate, change.estimate)
    assert (change.p_value, change.detectable) == (0, 0)


@compares
def test_zeros_are_compared_by_difference(compare: object) -> None:
    change = compare([(4.0,), (6.0,), (5.0,)], [(0.0,), (0.0,), (0.0,)])  # type: ignore[operator]
    assert change.estimate == pytest.approx(-1)


@compares
def test_nothing_on_both_sides_is_no_change(compare: object) -> None:
    change = compare([(0.0,), (0.0,)], [(0.0,), (0.0,)])  # type: ignore[operator]
    assert change.interval == (0, 0)
    assert change.p_value == 1


@compares
def test_no_change_is_relative_to_zero(compare: object) -> None:
    with pytest.raises(NoRatio):
        compare([(0.0,), (0.0,)], [(1.0,), (1.0,)])  # type: ignore[operator]


def test_boots_of_different_number_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="2 boots cannot be paired with 1"):
        paired.compare([(1.0,), (1.0,)], [(1.0,)])


@pytest.mark.parametrize("df", [1, 2, 4, 9])
def test_power_is_that_of_the_noncentral_t(df: int) -> None:
    threshold = stats.t.isf(0.005, df)
    assert stats.nct.sf(threshold, df, power.noncentrality(df, 0.01)) == pytest.approx(
        0.8, abs=1e-3
    )


@pytest.mark.parametrize("sides", [1, 2])
def test_boots_needed_are_the_fewest(sides: int) -> None:
    boots = power.boots_needed(0.02, 0.01, 0.01, sides=sides)
    assert boots is not None

    def shown(number: int) -> bool:
        effect = 0.02 * math.sqrt(number) / 0.01
        return effect >= power.noncentrality(sides * (number - 1), 0.01)

    assert shown(boots) and not shown(boots - 1)


def test_no_number_of_boots_shows_nothing() -> None:
    assert power.boots_needed(0.0, 0.01, 0.01) is None
    assert power.boots_needed(0.0001, 0.1, 0.01) is None


def test_what_is_detectable_is_detected_by_as_many_boots() -> None:
    change = paired.compare(
        [(100.0,), (101.0,), (99.0,), (100.0,)], [(100.0,), (100.0,), (100.5,), (99.0,)]
    )
    assert change is not None
    distance = math.log1p(change.detectable)
    assert power.boots_needed(distance * 1.001, change.spread, 0.01) == 4


def test_boots_are_those_that_tell_the_change_from_another() -> None:
    pairs = [(100.0,), (101.0,), (99.0,)], [(160.0,), (190.0,), (170.0,)]
    change = paired.compare(*pairs)
    assert change is not None
    for other in (0.5, -0.5, 3.0):
        distance = change.mean - math.log1p(other)
        expected = power.boots_needed(distance, change.spread, 0.01, least=4)
        assert change.boots_to_exclude(other) == expected
    assert change.boots_to_exclude(-1.0) is None


def test_separation_of_five_and_five() -> None:
    assert separation.p_within([(5, 5)]) == pytest.approx(2 / 252)
    assert separation.p_between(5, 5) == pytest.approx(2 / 252)
    # Labels fall within boots: two of six ways each.
    assert separation.p_within([(2, 2), (2, 2)]) == pytest.approx(2 / 36)


def test_separation_is_the_permutation_test() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
    expected = stats.permutation_test(
        (high, low), lambda a, b: np.mean(a) - np.mean(b), n_resamples=1000
    )
    assert separation.p_within([(4, 4)]) == pytest.approx(expected.pvalue)
    assert separation.is_above([high], [low])
    assert not separation.is_above([low], [high])
    assert not separation.is_above([[4.0, 9.0]], [low])
