"""Calibration by identical variants: noise that was put in is found, and told in a table."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf
from random import Random
from typing import Any

import pytest

from lab.experiments.calibration import BOOTS, Calibration, calibrate
from lab.guest.agent_client import Metric
from lab.report.calibration import print_calibration
from lab.results.trial import Trial
from lab.stats import paired, unpaired
from lab.stats.variance_components import components


def simulated(
    boots: int, trials: int, *, between: float = 0.02, within: float = 0.01, seed: int = 1
) -> list[Trial]:
    """Two variants that are the same, with the spreads given."""
    random = Random(seed)
    found = []
    for boot in range(boots):
        level = 1000 * exp(random.gauss(0, between))
        found += [
            taken(boot, variant, number, level * exp(random.gauss(0, within)))
            for number in range(trials)
            for variant in ("a", "b")
        ]
    return found


def taken(
    boot: int, variant: str, number: int, value: float, *, metric: str = "iops", error: str = ""
) -> Trial:
    return Trial(
        "aa", variant, boot, boot, number, "", 1.0,
        metrics=(Metric(metric, "1/s", "higher", value),), error=error or None,
    )  # fmt: skip


def only(trials: list[Trial]) -> Calibration:
    (found,) = calibrate(trials)
    return found


def test_components_of_a_worked_example() -> None:
    # Squares between: 2 * (1.5 - 4)^2 + 2 * (6.5 - 4)^2 = 25; within: 4 * 0.25 = 1, of 2 degrees.
    found = components([[1, 2], [6, 7]])
    assert found.within == pytest.approx(0.5**0.5)
    assert found.between == pytest.approx(((25 - 0.5) / 2) ** 0.5)


def test_components_of_groups_of_several_sizes_are_right_on_average() -> None:
    random = Random(3)
    variances = []
    for _ in range(2000):
        groups = []
        for size in (1, 2, 5, 9):
            level = random.gauss(0, 2)
            groups.append([level + random.gauss(0, 1) for _ in range(size)])
        found = components(groups)
        assert found.within is not None and found.between is not None
        variances.append((found.within**2, found.between**2))
    within, between = (sum(each) / len(variances) for each in zip(*variances, strict=True))
    assert within == pytest.approx(1, rel=0.05)
    assert between == pytest.approx(4, rel=0.1)


def test_spreads_that_were_put_in_are_found() -> None:
    found = only(simulated(60, 10))
    assert (found.boots, found.trials, found.metric, found.unit) == (60, 10, "iops", "1/s")
    assert found.within == pytest.approx(0.01, rel=0.1)
    assert found.between == pytest.approx(0.02, rel=0.25)


def test_false_alarms_are_as_rare_as_the_gates_level_says() -> None:
    rates = [
        only(simulated(5, 4, between=0.3, within=0.05, seed=seed)).false_alarms for seed in range(6)
    ]
    assert 0 < sum(rate or 0 for rate in rates) / len(rates) < 0.02


@pytest.mark.parametrize(
    ("effects", "compare", "shares_boots"),
    [("paired", paired.compare, True), ("alternating", unpaired.compare, False)],
)
def test_the_effect_it_promises_is_found_four_times_in_five(
    effects: str, compare: Callable[..., Any], shares_boots: bool
) -> None:
    found = only(simulated(60, 5))
    promised = getattr(found, effects)[5]
    assert list(getattr(found, effects)) == list(BOOTS)
    shown = 0
    for seed in range(300):
        values: dict[str, list[list[float]]] = {}
        sides = [simulated(5, 5, seed=1000 + seed), simulated(5, 5, seed=9000 + seed)]
        for side, variant in ((sides[0], "a"), (sides[0 if shares_boots else 1], "b")):
            factor = 1 if variant == "a" else 1 + promised
            values[variant] = [
                [
                    each.metrics[0].value * factor
                    for each in side
                    if each.boot == boot and each.variant == variant
                ]
                for boot in range(5)
            ]
        shown += compare(values["a"], values["b"], 0.01).p_value < 0.01
    assert shown / 300 == pytest.approx(0.8, abs=0.1)


def test_one_boot_tells_nothing_of_boots() -> None:
    found = only(simulated(1, 5))
    assert found.within and found.paired
    assert (found.between, found.false_alarms, found.alternating) == (None, None, {})


def test_one_trial_a_boot_tells_nothing_at_all() -> None:
    found = only([taken(boot, "a", 1, 100.0 + boot) for boot in range(5)])
    assert (found.within, found.between, found.false_alarms) == (None, None, None)
    assert not found.paired and not found.alternating


def test_a_metric_without_any_noise_has_none() -> None:
    found = only([taken(boot, each, 1, 7.0) for boot in range(4) for each in "ab"])
    assert (found.within, found.between, found.false_alarms) == (0, 0, 0)
    assert found.paired[5] == 0


def test_trials_that_failed_and_metrics_without_a_ratio_are_left_out() -> None:
    good = simulated(4, 3)
    failed = taken(0, "a", 9, 1e9, error="the peer is gone")
    zero = [taken(boot, each, 1, float(boot), metric="lost") for boot in range(4) for each in "ab"]
    assert calibrate([*good, failed, *zero]) == calibrate(good)


def test_each_metric_of_each_experiment_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_calibration(calibrate(simulated(12, 6)))
    shown = capsys.readouterr().out
    for words in ("aa", "iops", "12 x 6", "false alarms", "3/5/10 shared boots", "power 0.8"):
        assert words in shown
    assert inf not in only(simulated(12, 6)).paired.values()


def test_nothing_to_calibrate_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_calibration(calibrate([]))
    assert "no metric was positive" in capsys.readouterr().err
