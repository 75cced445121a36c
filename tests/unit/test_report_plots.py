"""Plots of a report: where things are drawn, and that no figure a run may give breaks one."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.experiments.findings import Finding, Side, Verdict
from lab.guest.agent_client import Metric
from lab.report import plots
from lab.report.distribution import FEWEST, Distribution, distributions, tail_plot
from lab.report.svg import Scale, scale_of, tick_text
from lab.results.trial import Trial
from lab.topology.experiment import Gate

FIGURES = st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -1.0, math.inf, -math.inf])
GATE = Gate.model_validate(
    {"metric": "m", "variant": "b", "baseline": "a", "direction": "lower", "effect": "10%"}
)


def finding(**told: Any) -> Finding:
    return Finding(
        **{
            "experiment": "e",
            "gate": "g",
            "metric": "m",
            "unit": "us",
            "kind": "change",
            "claim": "c",
            "verdict": Verdict.PASS,
            **told,
        }
    )


def trial(variant: str, boot: int, value: float | None, **told: Any) -> Trial:
    metrics = () if value is None else (Metric("m", "us", "lower", value),)
    return Trial("e", variant, boot, boot, 1, "2026-12-07T09:00:00", 1.0, metrics=metrics, **told)


def parsed(svg: str | None) -> ElementTree.Element:
    """The drawing, which has only finite places."""
    assert svg is not None
    root = ElementTree.fromstring(svg)
    for each in root.iter():
        for name, value in each.items():
            if name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points", "viewBox"):
                assert re.fullmatch(r"[-0-9., e]+", value), (each.tag, name, value)
    return root


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if name in each.get("class", "").split()]


@given(st.lists(FIGURES.filter(math.isfinite), min_size=1, max_size=20))
def test_every_value_is_on_its_scale(values: list[float]) -> None:
    scale = scale_of(values, 100, 10)
    assert all(10 <= scale.at(value) <= 100 for value in values)
    ticks = scale.ticks()
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert ticks == sorted(ticks)


def test_ticks_are_round() -> None:
    assert Scale(0, 47, 0, 200).ticks() == [0, 10, 20, 30, 40]
    assert Scale(0, 70, 0, 200).ticks() == [0, 20, 40, 60]
    assert Scale(900, 1.2e6, 0, 400, is_log=True).ticks() == [1e3, 1e4, 1e5, 1e6]
    assert [tick_text(each) for each in (0, 0.25, 950, 2e4, 1.5e6)] == [
        "0",
        "0.25",
        "950",
        "20k",
        "1.5M",
    ]


def test_an_interval_is_drawn_beside_what_is_required_and_published() -> None:
    shown = finding(estimate=-0.3, low=-0.4, high=-0.2, reference="-35 %")
    root = parsed(plots.change_intervals([shown], {"g": GATE}))
    (dot,) = of_class(root, "dot")
    (zero,) = of_class(root, "zero")
    (required,) = of_class(root, "required")
    (published,) = of_class(root, "published")
    at = float(dot.get("cx", ""))
    claimed = float(required.get("x1", ""))
    told = float(published.get("points", "").split(",")[0])
    assert told < at < claimed < float(zero.get("x1", ""))


def test_an_interval_wider_than_the_rest_ends_in_an_arrow() -> None:
    narrow = finding(estimate=0.02, low=0.01, high=0.03)
    wide = finding(estimate=0.0, low=-0.9, high=9.0)
    root = parsed(plots.change_intervals([narrow, wide], {}))
    assert len(of_class(root, "beyond")) == 2


def test_two_edges_of_within() -> None:
    within = Gate.model_validate({"metric": "m", "variant": "b", "baseline": "a", "within": "5%"})
    assert plots.required_changes(within) == (-0.05, 0.05)
    assert plots.required_changes(GATE) == (-0.1,)


@given(FIGURES, FIGURES | st.none(), FIGURES | st.none())
def test_no_interval_breaks_the_plot(
    estimate: float, low: float | None, high: float | None
) -> None:
    for kind in ("change", "rate"):
        shown = finding(kind=kind, estimate=estimate, low=low, high=high)
        parsed(plots.change_intervals([shown], {"g": GATE}) or "<svg/>")
        parsed(plots.rate_intervals([shown], {}) or "<svg/>")


def test_lines_join_only_boots_that_were_paired() -> None:
    sides = {"baseline": Side("a", ((1.0, 3.0), (2.0,))), "variant": Side("b", ((5.0,), (4.0,)))}
    paired = parsed(plots.slopes(finding(**sides, pairs=(1.5, 1.0)), ["a", "b"]))
    apart = parsed(plots.slopes(finding(**sides), ["a", "b"]))
    assert len(of_class(paired, "slope")) == 2
    assert len(of_class(apart, "slope")) == 0
    assert len(of_class(apart, "m")) == 4


def test_a_trial_without_a_value_is_a_cross_in_its_place() -> None:
    trials = [trial("a", 1, 1.0), trial("b", 1, None, error="lost"), trial("a", 2, 2.0)]
    root = parsed(plots.series("m", trials, ["a", "b"]))
    (cross,) = of_class(root, "lost")
    first, last = (float(each.get("cx", "")) for each in of_class(root, "m"))
    assert first < float(cross.get("x", "")) < last
    assert len(of_class(root, "boot")) == 2


def test_a_bound_is_shown_where_nothing_reaches_it() -> None:
    root = parsed(plots.series("m", [trial("a", 1, 0.0)], ["a"], [1.0]))
    assert len(of_class(root, "required")) == 1


@given(st.lists(FIGURES, min_size=1, max_size=10), st.lists(FIGURES.filter(math.isfinite)))
def test_no_value_breaks_a_series(values: list[float], bounds: list[float]) -> None:
    trials = [trial("a", boot, value) for boot, value in enumerate(values, 1)]
    parsed(plots.series("m", trials, ["a"], bounds) or "<svg/>")


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.floats(0, 1))
def test_no_more_than_a_share_is_above(samples: list[int], share: float) -> None:
    value = Distribution.of((each, 1) for each in samples).above(share)
    assert value in samples
    above = sum(1 for each in samples if each > value)
    below = sum(1 for each in samples if each < value)
    assert above <= share * len(samples) + 1e-5
    assert below < max(1, (1 - share) * len(samples)) + 1e-5


def test_samples_of_boots_are_kept_apart_and_of_trials_of_a_boot_are_not() -> None:
    trials = [
        trial("a", 1, None, samples={"latency_us": [1, 2]}),
        trial("a", 1, None, samples={"latency_us": [3]}),
        trial("a", 2, None, samples={"latency_us": [9]}),
        trial("b", 2, None, histograms={"hold": {"unit": "ns", "buckets": [[16, 5], [32, 1]]}}),
    ]
    found = distributions(trials)
    assert {name: set(of) for name, of in found.items()} == {"latency_us": {"a"}, "hold, ns": {"b"}}
    assert found["latency_us"]["a"][1].values == [1, 2, 3]
    assert found["latency_us"]["a"][2].values == [9]
    assert found["hold, ns"]["b"][2].size == 6


def test_a_tail_has_a_curve_and_a_band_for_each_variant() -> None:
    long = [trial("b", boot, None, samples={"us": [*range(boot, 1000), 10**6]}) for boot in (1, 2)]
    few = trial("a", 1, None, samples={"us": list(range(FEWEST - 1))})
    of = distributions([*long, few])["us"]
    root = parsed(tail_plot("us", of, ["a", "b"]))
    assert [each.get("class") for each in of_class(root, "curve")] == ["curve c1"]
    assert len(of_class(root, "band")) == 1
    assert tail_plot("us", distributions([few])["us"], ["a"]) is None


@pytest.mark.parametrize("value", [0, 7])
def test_samples_that_are_all_the_same_have_a_plot(value: int) -> None:
    same = trial("a", 1, None, samples={"us": [value] * FEWEST})
    parsed(tail_plot("us", distributions([same])["us"], ["a"]))


def test_names_are_text_in_a_plot() -> None:
    shown = replace(finding(estimate=0.1), gate="<b>&", experiment='"')
    assert "<b>" not in (plots.change_intervals([shown], {}) or "")
    odd = trial("a", 1, None, counters={'"x"': 1.0})
    assert parsed(plots.series('"x"', [odd], ["a"])).get("aria-label", "").startswith('"x" of')
