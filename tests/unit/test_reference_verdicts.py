"""The published tables, judged by `lab compare`: the verdicts that can be derived by hand.

msquic #3283, five runs of main and five of the change: at 40 connections the change's gain in
requests a second is beyond doubt, at one connection the ranges overlap (main has two modes).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.results.comparison import Comparison, Outcome, compare
from lab.results.measured import of_files

TABLE = Path(__file__).parents[1] / "data" / "reference" / "msquic-rps.csv"
PUBLISHED = Path(__file__).parents[1] / "data" / "imports" / "secnetperf-published.txt"


@pytest.fixture(scope="module")
def judged() -> dict[tuple[str, str], Comparison]:
    found = compare(of_files(f"{TABLE}:main"), of_files(f"{TABLE}:latest"))
    return {(each.variant, each.metric): each for each in found}


def mean_change(each: Comparison) -> float:
    """Of arithmetic means, as the tables are usually read."""
    base, new = (
        sum(v for boot in side for v in boot) / len(side) for side in (each.base, each.new)
    )
    return new / base - 1


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("rps", 0.499),
        ("min_us", -0.245),
        ("p50_us", -0.351),
        ("p90_us", -0.400),
        ("p99_us", -0.332),
        ("p99_9_us", -0.271),
    ],
)
def test_at_40_connections_the_body_of_the_distribution_improved(
    judged: dict[tuple[str, str], Comparison], metric: str, change: float
) -> None:
    each = judged["connections=40", metric]
    assert each.outcome is Outcome.IMPROVED
    assert each.is_separated and each.p_separated == pytest.approx(2 / 252)
    assert mean_change(each) == pytest.approx(change, abs=0.001)
    # Means of logarithms say nearly the same where the spread is small.
    assert each.change and each.change.estimate == pytest.approx(change, abs=0.005)
    low, high = each.change.interval
    assert low <= change <= high


def test_at_40_connections_the_worst_case_became_worse(
    judged: dict[tuple[str, str], Comparison],
) -> None:
    worst = judged["connections=40", "max_us"]
    assert (worst.outcome, worst.is_separated) == (Outcome.REGRESSED, True)
    assert mean_change(worst) == pytest.approx(0.17, abs=0.005)
    assert judged["connections=40", "p99_99_us"].outcome is Outcome.INCONCLUSIVE
    assert judged["connections=40", "p99_999_us"].outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("metric", "change"), [("min_us", -0.230), ("p90_us", -0.214)])
def test_at_one_connection_minimum_and_p90_improved(
    judged: dict[tuple[str, str], Comparison], metric: str, change: float
) -> None:
    each = judged["connections=1", metric]
    assert (each.outcome, each.is_separated) == (Outcome.IMPROVED, True)
    assert mean_change(each) == pytest.approx(change, abs=0.001)


@pytest.mark.parametrize(
    ("metric", "change"),
    [("rps", 0.113), ("p50_us", -0.063), ("p99_us", -0.164), ("p99_9_us", -0.016)],
)
def test_at_one_connection_the_rest_cannot_be_told(
    judged: dict[tuple[str, str], Comparison], metric: str, change: float
) -> None:
    each = judged["connections=1", metric]
    assert (each.outcome, each.is_separated) == (Outcome.INCONCLUSIVE, False)
    assert mean_change(each) == pytest.approx(change, abs=0.001)
    # Five such runs could not have shown a change of that size.
    assert each.change and each.change.detectable > abs(change)


def test_the_published_lines_say_what_the_table_says(
    judged: dict[tuple[str, str], Comparison],
) -> None:
    lines = compare(of_files(f"{PUBLISHED}:Main-2"), of_files(f"{PUBLISHED}:Latest-2"))
    (rps,) = [each for each in lines if each.metric == "rps"]
    assert rps.change == judged["connections=40", "rps"].change
