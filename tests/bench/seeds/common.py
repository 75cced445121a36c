"""Trials of variants, interleaved and kept, and what a criterion says of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from lab.deadline import Deadline
from lab.errors import InputError, LabError, NothingMeasured
from lab.guest.agent_client import AgentError, Result
from lab.progress import Progress
from lab.running import RunningLab
from lab.workload import run_workload

TRIAL_S = 300.0

Outcome = Literal["holds", "does not hold", "cannot be resolved", "reported"]


@dataclass(frozen=True)
class Trial:
    """One run of one variant. `error` is why there is no whole result."""

    variant: str
    number: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, Sequence[int]] = field(default_factory=dict)
    histograms: Mapping[str, Any] = field(default_factory=dict)
    harness: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fidelity: str = ""
    error: str | None = None


@dataclass(frozen=True)
class Variant:
    """Something to run again and again: `measure` makes one run of it."""

    name: str
    measure: Callable[[RunningLab, Deadline], Result]


def mechanism(
    name: str,
    mechanism: str,
    given: Mapping[str, Any],
    *,
    guest: str | None = None,
    peer: str | None = None,
) -> Variant:
    """A variant that runs a mechanism."""

    def measure(lab: RunningLab, deadline: Deadline) -> Result:
        return run_workload(lab, mechanism, given, guest=guest, peer=peer, deadline=deadline)

    return Variant(name, measure)


class Trials:
    """All trials of a seed, by variant."""

    def __init__(self, trials: Iterable[Trial]) -> None:
        self.all = list(trials)

    def of(self, variant: str) -> list[Trial]:
        """The trials of `variant` that ran to their end."""
        return [trial for trial in self.all if trial.variant == variant and trial.error is None]

    def values(self, variant: str, name: str) -> list[float]:
        """Metric or counter `name` of each trial of `variant` that has it."""
        return [
            value
            for trial in self.of(variant)
            if (value := trial.metrics.get(name, trial.counters.get(name))) is not None
        ]

    def errors(self) -> list[str]:
        return [f"{each.variant} {each.number}: {each.error}" for each in self.all if each.error]


def interleave(
    lab: RunningLab, variants: Sequence[Variant], runs: int, *, out: Path, progress: Progress
) -> list[Trial]:
    """Run every variant `runs` times in turn; each trial is in `out` (JSON lines) once taken.

    Every round has an order of its own, the same in every collection: rotating one order would
    leave each variant behind the same one, and with what that leaves for the guest to clean up.
    """
    trials = []
    with out.open("a") as file:
        for number in range(1, runs + 1):
            for variant in Random(number).sample(variants, len(variants)):
                with progress.step(f"{variant.name} {number}/{runs}"):
                    trial = _trial(lab, variant, number)
                trials.append(trial)
                file.write(json.dumps(asdict(trial)) + "\n")
                file.flush()
    return trials


def _trial(lab: RunningLab, variant: Variant, number: int) -> Trial:
    try:
        result = variant.measure(lab, Deadline(TRIAL_S))
    except AgentError as error:
        return Trial(variant.name, number, error=error.message)
    except LabError as error:
        return Trial(variant.name, number, error=str(error))
    told = result.mechanism
    return Trial(
        variant.name,
        number,
        metrics={metric.name: metric.value for metric in result.metrics},
        counters=told.counters if told else {},
        samples=result.samples,
        histograms=told.histograms if told else {},
        harness=asdict(told.harness) if told else {},
        policy=told.policy if told else {},
        parameters=told.parameters if told else {},
        fidelity=result.fidelity,
    )


def read(path: Path) -> Trials:
    """Raises InputError for a file of anything else, NothingMeasured for one without trials."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("not a file of trials", where=str(path)) from None
    trials = []
    for number, line in enumerate(lines, 1):
        try:
            trials.append(Trial(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"not a trial: {error}",
                where=f"{path}:{number}",
                hint="give --judge the file that --out has written",
            ) from None
    if not trials:
        raise NothingMeasured("no trials", where=str(path), hint="measure some with --out FILE")
    return Trials(trials)


@dataclass(frozen=True)
class Criterion:
    """One row of a seed's table: what must hold, the seed's relative effect, and what we saw."""

    name: str
    must_hold: str
    seed: str
    measured: str
    outcome: Outcome
    why: str = ""


def spread(values: Sequence[float], digits: int = 4) -> str:
    """Mean, range and count, as the tables show them."""
    if not values:
        return "nothing measured"
    shown = [f"{each:,.{digits}g}" for each in (statistics.fmean(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} .. {shown[2]}), n={len(values)}"


def change(before: Sequence[float], after: Sequence[float]) -> float:
    """Relative change of the means, as the seeds' own figures are compared."""
    return statistics.fmean(after) / statistics.fmean(before) - 1


def separated(lower: Sequence[float], higher: Sequence[float]) -> bool:
    """Is every value of `lower` below every one of `higher`?"""
    return max(lower) < min(higher)


def shift(
    before: Sequence[float], after: Sequence[float], *, floor: float
) -> tuple[Outcome, str, str]:
    """Outcome, measured text and reason for "every `after` beyond every `before`, by `floor`".

    `floor` is the least relative change of the means: +0.15 for a rise, -0.10 for a fall.
    """
    if not before or not after:
        return "cannot be resolved", "nothing measured", "one side has no finished trial"
    by = change(before, after)
    measured = f"{spread(before)} -> {spread(after)}: {by:+.1%}"
    low, high = (before, after) if floor > 0 else (after, before)
    if separated(low, high):
        if abs(by) >= abs(floor):
            return "holds", measured, ""
        return "does not hold", measured, f"separated, but by less than {floor:+.0%}"
    if separated(high, low):
        return "does not hold", measured, "separated the other way"
    return "cannot be resolved", measured, "the ranges overlap"


def markdown(criteria: Sequence[Criterion]) -> str:
    head = "| criterion | must hold | seed | measured | outcome | why |\n" + "|---" * 6 + "|\n"
    return head + "\n".join(
        f"| {each.name} | {each.must_hold} | {each.seed} | {each.measured} "
        f"| {each.outcome} | {each.why} |"
        for each in criteria
    )
