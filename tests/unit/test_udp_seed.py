"""Judging msquic's criteria: from made-up trials, each outcome for its own reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.seeds import msquic
from tests.bench.seeds.common import Criterion, Trial, Trials

FASTER = {"main": 1.0, "latest": 0.6, "queued sends": 0.8, "posted receives": 0.9}


def made_up(**changed: Any) -> list[Trial]:
    """Five trials a variant in which everything holds; spread by 1 % a trial."""
    trials = []
    for place in msquic.PLACES:
        for connections, load in msquic.LOADS.items():
            for what in (*msquic.PRESETS, *msquic.CORNERS):
                for number in range(1, 6):
                    mean_us = 1000.0 * FASTER.get(what, 1.0) * (1 + number / 100)
                    is_queued = 1.0 if what == "main" else 0.0
                    names = ("min", "p50", "p90", "p99", "p99_99", "max", "mean")
                    trials.append(
                        Trial(
                            msquic.variant_name(place, connections, what),
                            number,
                            metrics={
                                "rps": load["in_flight"] / mean_us * 1e6,
                                **{f"latency_{name}": mean_us for name in names},
                            },
                            counters={
                                f"{end}{name}_per_request": is_queued
                                for end in ("", "server_")
                                for name in ("sends_queued", "recv_posted")
                            },
                            harness={"spread_us": changed.get("harness_us", 1.0)},
                            parameters=load,
                        )
                    )
        for send in msquic.BULK:
            trials += [
                Trial(
                    f"{place} bulk {send}",
                    number,
                    metrics={"delivered_mbps": changed.get(send, 100.0) + number},
                    counters={"cpu_us_per_request": 20.0},
                )
                for number in range(1, 6)
            ]
    return trials


def judged(trials: list[Trial]) -> dict[str, Criterion]:
    return {each.name: each for each in msquic.judge(Trials(trials))}


def test_everything_that_is_gated_holds_and_the_rest_is_reported() -> None:
    criteria = judged(made_up())
    outcomes = {name: each.outcome for name, each in criteria.items()}
    assert set(outcomes.values()) == {"holds", "reported"}
    assert list(outcomes.values()).count("holds") == 2 * (len(msquic.GATED) + 3)
    assert criteria["inside, 40 conn., rps"].measured.endswith("+66.7%")
    assert criteria["across, 1 conn., rps"].outcome == "reported"
    assert "queued sends: " in criteria["inside, 40 conn., send x recv, RPS"].measured


def test_an_effect_within_the_harness_spread_is_not_resolved() -> None:
    criteria = judged(made_up(harness_us=10.0))
    # 400 us of latency at either load, but only 20 us a request with twenty in flight.
    assert criteria["inside, 40 conn., p50"].outcome == "cannot be resolved"
    assert criteria["inside, 40 conn., rps"].outcome == "cannot be resolved"
    assert "harness" in criteria["inside, 40 conn., p50"].why
    assert criteria["inside, 1 conn., p90"].outcome == "holds"


def replaced(trials: list[Trial], variant: str, **fields: Any) -> list[Trial]:
    return [
        Trial(**{**vars(trial), **fields}) if trial.variant == variant else trial
        for trial in trials
    ]


def test_sends_that_are_still_queued_are_no_change() -> None:
    trials = made_up()
    counters = {**trials[5].counters, "sends_queued_per_request": 0.01}
    criteria = judged(replaced(trials, "inside 40 latest", counters=counters))
    assert criteria["inside, hops a request"].outcome == "does not hold"
    assert criteria["across, hops a request"].outcome == "holds"


def test_a_client_that_idles_breaks_littles_law() -> None:
    trials = made_up()
    metrics = {**trials[0].metrics, "latency_mean": 500.0}
    criterion = judged(replaced(trials, "inside 40 main", metrics=metrics))["inside, Little's law"]
    assert criterion.outcome == "does not hold"
    assert "inside 40 main" in criterion.measured


def test_overlapping_ranges_decide_nothing_and_a_reversed_effect_does_not_hold() -> None:
    trials = made_up()
    main = next(each for each in trials if each.variant == "across 40 main")
    latest = replaced(trials, "across 40 latest", metrics=main.metrics)
    assert judged(latest)["across, 40 conn., rps"].outcome == "cannot be resolved"
    slower = replaced(trials, "across 40 latest", metrics={**main.metrics, "latency_p50": 9e9})
    assert judged(slower)["across, 40 conn., p50"].outcome == "does not hold"


@pytest.mark.parametrize(
    ("queued", "outcome"), [(100.0, "holds"), (150.0, "holds"), (50.0, "cannot be resolved")]
)
def test_the_control_asks_for_more_cpus_than_the_guests_have(queued: float, outcome: str) -> None:
    criterion = judged(made_up(queue_datapath=queued))["across, maxtput bulk, Mb/s"]
    assert criterion.outcome == outcome


def test_with_four_vcpus_a_slower_queue_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msquic, "VCPUS", 4)
    criterion = judged(made_up(queue_datapath=50.0))["across, maxtput bulk, Mb/s"]
    assert criterion.outcome == "does not hold"


def test_without_trials_nothing_holds() -> None:
    outcomes = {each.outcome for each in msquic.judge(Trials([]))}
    assert outcomes == {"cannot be resolved", "reported"}
