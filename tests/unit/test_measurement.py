"""Histograms, series and usage: what the agent makes of what it saw."""

from __future__ import annotations

import time

import pytest
from datapath_agent.measurement.histogram import Histogram, bucket, lowest
from datapath_agent.measurement.percentiles import percentile
from datapath_agent.measurement.series import (
    Series,
    coefficient_of_variation,
    lowest_to_highest,
    together,
)
from datapath_agent.measurement.usage import total, usage, used_since
from hypothesis import given
from hypothesis import strategies as st

durations = st.integers(0, 1 << 40)


@given(durations)
def test_a_bucket_holds_its_value_to_3_percent(value: int) -> None:
    low, above = lowest(bucket(value)), lowest(bucket(value) + 1)
    assert low <= value < above
    assert above - low <= max(1, value / 32)


@given(st.lists(durations, min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999]))
def test_a_histograms_percentile_is_the_exact_ones_bucket(
    values: list[int], quantile: float
) -> None:
    histogram = Histogram("ns")
    for value in values:
        histogram.add(value)
    assert histogram.percentile(quantile) == lowest(bucket(percentile(sorted(values), quantile)))
    assert histogram.total == len(values)


@given(st.lists(durations), st.lists(durations))
def test_merging_is_adding_all(first: list[int], second: list[int]) -> None:
    merged, whole = Histogram("us"), Histogram("us")
    for part in (first, second):
        histogram = Histogram("us")
        for value in part:
            histogram.add(value)
            whole.add(value)
        merged.merge(histogram.counts)
    assert merged.as_dict() == whole.as_dict()


def test_an_empty_histogram_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="empty"):
        Histogram("us").percentile(0.5)


def test_a_series_keeps_whole_intervals_only() -> None:
    series = Series(start_s=10.0, bin_s=0.5)
    for now_s, amount in ((9.9, 100), (10.0, 1), (10.49, 2), (10.5, 4), (11.6, 8)):
        series.add(now_s, amount)
    assert series.whole(1.5) == [3, 4, 0]
    assert series.whole(1.99) == [3, 4, 0]
    assert series.whole(3.0) == [3, 4, 0, 8, 0, 0]


def test_steadiness_of_a_series() -> None:
    assert lowest_to_highest([9, 10, 9]) == 0.9
    assert lowest_to_highest([0, 10]) == lowest_to_highest([]) == lowest_to_highest([0, 0]) == 0.0
    assert coefficient_of_variation([5, 5, 5]) == 0.0
    assert coefficient_of_variation([4, 6]) == pytest.approx(2**0.5 / 5)
    assert together([[1, 2, 3], [10, 20]]) == [11, 22]


def test_usage_counts_switches_and_cpu_time_of_this_process() -> None:
    before = usage()
    end_s = time.monotonic() + 0.05
    while time.monotonic() < end_s:
        pass
    time.sleep(0.01)
    used = used_since(before)
    assert used["user_s"] + used["system_s"] > 0.02
    assert used["voluntary_switches"] >= 1
    assert total([used, used])["user_s"] == 2 * used["user_s"]
