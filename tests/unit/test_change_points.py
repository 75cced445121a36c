"""Change points of nightly series: few false ones, and shifts that are found where they are."""

from __future__ import annotations

import numpy as np
import pytest

from lab.stats.change_points import MAX_P, change_points

NIGHTS = 60
SPREAD = 0.03


def nights(
    random: np.random.Generator, shift: float = 0.0, after: int = 0, spread: float = SPREAD
) -> list[float]:
    values = random.normal(1.0, spread, NIGHTS)
    if after:
        values[-after:] *= 1 + shift
    return list(values)


@pytest.mark.parametrize("spread", [SPREAD, 0.2])
def test_a_clean_series_hardly_ever_has_one(spread: float) -> None:
    """Also one that spreads so much that every difference is a large one."""
    random = np.random.default_rng(1)
    false = sum(bool(change_points(nights(random, spread=spread))) for _ in range(300))
    assert false <= 2


@pytest.mark.parametrize(("shift", "after", "least"), [(0.10, 5, 0.95), (0.07, 10, 0.75)])
def test_a_shift_is_found_where_it_is(shift: float, after: int, least: float) -> None:
    random = np.random.default_rng(2)
    found = 0
    for _ in range(60):
        points = change_points(nights(random, shift, after))
        found += any(abs(point.index - (NIGHTS - after)) <= 2 for point in points)
    assert found / 60 >= least


def test_a_point_tells_both_levels_and_its_p() -> None:
    random = np.random.default_rng(3)
    levels = [100.0] * 15 + [80.0] * 15 + [120.0] * 15
    points = change_points([level * random.normal(1, 0.01) for level in levels])
    assert [point.index for point in points] == [15, 30]
    assert points[0].change == pytest.approx(-0.20, abs=0.02)
    assert points[1].change == pytest.approx(0.50, abs=0.02)
    assert all(point.p < MAX_P for point in points)


def test_a_small_change_is_no_news_however_sure_it_is() -> None:
    random = np.random.default_rng(4)
    levels = [100.0] * 30 + [103.0] * 30
    assert not change_points([level * random.normal(1, 0.002) for level in levels])


def test_one_night_off_is_no_level() -> None:
    random = np.random.default_rng(5)
    assert not change_points([*(random.normal(100, 1) for _ in range(400)), 200])


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [5.0] * 40])
def test_too_short_or_constant_series_have_none(values: list[float]) -> None:
    assert change_points(values) == ()


def test_a_counter_that_begins_to_count_is_a_change() -> None:
    random = np.random.default_rng(6)
    (point,) = change_points([0.0] * 20 + [float(random.integers(5, 9)) for _ in range(20)])
    assert point.index == 20
    assert point.change == float("inf")
