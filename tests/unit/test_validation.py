"""Collecting in looks, and verdicts as pytest tells them: with trials made up, without guests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab import pytest_experiments
from lab.deadline import Deadline
from lab.experiments import validation
from lab.experiments.design import PlannedBoot
from lab.experiments.findings import Finding, Verdict
from lab.guest.agent_client import Metric
from lab.progress import Progress
from lab.results.run_directory import Boot, Manifest, RunDirectory
from lab.results.trial import Trial
from lab.topology.load import parse

TEXT = """\
name: t
guests: {a: {}}
experiments:
  e:
    workload: {engine: udp, runtime_s: 1}
    variants: {old: {preset: main}, new: {preset: latest}}
    trials: 2
    boots: 5
    gates:
      g: {metric: rps, variant: new, baseline: old, direction: higher, effect: 5%}
"""


class MadeUp:
    """Stands for a Collector: boots differ by 2 %, trials of a boot by 1 %, `effect` is true."""

    effect = 0.0

    def __init__(self, run: RunDirectory, *_: Any, **__: Any) -> None:
        self._run = run
        self._random = Random(1)
        self.trials: list[Trial] = []
        self.boots: dict[int, Boot] = {}

    def collect(self, planned: Sequence[PlannedBoot]) -> None:
        for boot in planned:
            number = len(self.boots) + 1
            self.boots[number] = Boot(number, boot.number, boot.group, "")
            weather = self._random.gauss(1, 0.02)
            for slot in boot.slots:
                rate = 100 * weather * self._random.gauss(1, 0.01)
                rate *= 1 + self.effect * (slot.variant == "new")
                trial = Trial(
                    slot.experiment, slot.variant, number, boot.number, slot.number, "", 1.0,
                    metrics=(Metric("rps", "1/s", "higher", rate),),
                )  # fmt: skip
                self.trials.append(trial)


Collect = Callable[..., MadeUp]


@pytest.fixture
def collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Collect:
    def collect(effect: float, *, sequential: bool) -> MadeUp:
        manifest = Manifest("i", "t", "s", "full", 1, "", "", "tcg", {}, sequential=sequential)
        run = RunDirectory.create(tmp_path / "run", manifest, TEXT)
        made: list[MadeUp] = []

        def collector(*given: Any, **named: Any) -> MadeUp:
            made.append(MadeUp(*given, **named))
            made[0].effect = effect
            return made[0]

        monkeypatch.setattr(validation, "Collector", collector)
        environment = validation.Environment(
            parse(TEXT, Path("t.yaml")), wanted="tcg", progress=Progress(), deadline=Deadline(1)
        )
        error = validation.collect(run, environment, progress=Progress(), deadline=Deadline(1))
        assert error is None
        return made[0]

    return collect


def test_a_run_makes_the_boots_that_were_planned(collected: Collect) -> None:
    assert len(collected(0.5, sequential=False).boots) == 5


def test_a_clear_effect_ends_a_sequential_run_early(collected: Collect) -> None:
    assert 2 <= len(collected(0.5, sequential=True).boots) < 5


def test_what_stays_unclear_goes_on_to_the_limit(collected: Collect) -> None:
    """An effect that is just the claimed one cannot be told from less."""
    assert len(collected(0.045, sequential=True).boots) == 10


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Verdict.PASS, None),
        (Verdict.REPORTED, None),
        (Verdict.FAIL, pytest.fail.Exception),
        (Verdict.BROKEN_LAB, pytest.fail.Exception),
        (Verdict.NOTHING_MEASURED, pytest.fail.Exception),
        (Verdict.INCONCLUSIVE, pytest.skip.Exception),
        (Verdict.KNOWN, pytest.xfail.Exception),
    ],
)
def test_pytest_tells_each_verdict_apart(
    verdict: Verdict, outcome: type[BaseException] | None
) -> None:
    finding = Finding("e", "g", "rps", "1/s", "change", "new above old", verdict, why="because")
    if outcome is None:
        pytest_experiments.tell(finding)
    else:
        with pytest.raises(outcome, match="new above old; because"):
            pytest_experiments.tell(finding)
