"""The figures of one side of a gate, from the trials of its experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from lab.experiments.findings import Side, Verdict
from lab.results.run_directory import Boot
from lab.results.trial import Trial
from lab.topology.experiment import Side as Named
from lab.units import counted


class Unmeasured(Exception):
    """There is no figure to judge. `verdict` says whether the lab or the workload is why."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(why)
        self.verdict = verdict
        self.why = why


@dataclass(frozen=True)
class Figure:
    """One trial's value of a metric or counter, or the ratio of two trials'."""

    boot: int
    planned_boot: int
    number: int
    value: float


@dataclass(frozen=True)
class Figures:
    """All figures of a side, at least one."""

    name: str
    all: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(figure.value for figure in self.all)

    @property
    def by_boot(self) -> dict[int, dict[int, float]]:
        """Boot -> number of the trial -> value, in order."""
        found: dict[int, dict[int, float]] = {}
        for figure in sorted(self.all, key=lambda each: (each.boot, each.number)):
            found.setdefault(figure.boot, {})[figure.number] = figure.value
        return found

    def side(self, boots: Iterable[int] | None = None) -> Side:
        """As a Finding shows it; only `boots`, if they are given."""
        by_boot = self.by_boot
        chosen = by_boot if boots is None else boots
        return Side(self.name, tuple(tuple(by_boot[boot].values()) for boot in chosen))


def figures(side: Named, metric: str, trials: Sequence[Trial], boots: Sequence[Boot]) -> Figures:
    """The figures of a variant, or of the ratio of two. Raises Unmeasured where there is none."""
    if isinstance(side, str):
        return _of_variant(side, metric, trials, boots)
    above, below = (_of_variant(each, metric, trials, boots) for each in side)
    return _ratio(above, below)


def variants_of(side: Named | None) -> tuple[str, ...]:
    if side is None:
        return ()
    return (side,) if isinstance(side, str) else side


def _of_variant(
    variant: str, metric: str, trials: Sequence[Trial], boots: Sequence[Boot]
) -> Figures:
    of_variant = [trial for trial in trials if trial.variant == variant]
    whole = [trial for trial in of_variant if trial.is_whole]
    if not whole:
        raise _nothing_whole(variant, of_variant, boots)
    found = [
        Figure(trial.boot, trial.planned_boot, trial.number, value)
        for trial in whole
        if (value := trial.value(metric)) is not None and isfinite(value)
    ]
    if not found:
        known = {each.name for trial in whole for each in trial.metrics}
        counters = {name for trial in whole for name in trial.counters}
        raise Unmeasured(
            Verdict.NOTHING_MEASURED,
            f"{variant} has no figure `{metric}`; its metrics: {_list(known)}; "
            f"its counters: {_list(counters)}",
        )
    without = len(whole) - len(found)
    notes = (f"{variant}: {counted(without, 'trial')} without `{metric}`",) if without else ()
    return Figures(variant, tuple(found), notes)


def _nothing_whole(variant: str, failed: Sequence[Trial], boots: Sequence[Boot]) -> Unmeasured:
    lost = [trial for trial in failed if trial.fault == "lost"]
    broken = [boot for boot in boots if boot.error]
    if lost:
        return Unmeasured(Verdict.BROKEN_LAB, f"no whole trial of {variant}: {lost[-1].error}")
    if failed:
        return Unmeasured(
            Verdict.NOTHING_MEASURED, f"no whole trial of {variant}: {failed[-1].error}"
        )
    if broken:
        return Unmeasured(
            Verdict.BROKEN_LAB,
            f"no trial of {variant}: boot {broken[-1].number}: {broken[-1].error}",
        )
    return Unmeasured(Verdict.NOTHING_MEASURED, f"no trial of {variant} was made")


def _ratio(above: Figures, below: Figures) -> Figures:
    """Trial by trial of a boot; variants that share no boot go together by the planned one."""
    name = f"{above.name} / {below.name}"
    notes = (*above.notes, *below.notes)
    pairs = _matched(above, below, lambda each: (each.boot, each.number))
    if not pairs:
        pairs = _matched(above, below, lambda each: (each.planned_boot, each.number))
    ratios = tuple(
        Figure(one.boot, one.planned_boot, one.number, one.value / other.value)
        for one, other in pairs
        if other.value
    )
    if not ratios:
        raise Unmeasured(
            Verdict.NOTHING_MEASURED,
            f"no trial of {above.name} that one of {below.name} (other than 0) goes with",
        )
    left = max(len(above.all), len(below.all)) - len(ratios)
    if left:
        notes = (*notes, f"{name}: {counted(left, 'trial')} left out for want of a partner")
    return Figures(name, ratios, notes)


def _matched(
    above: Figures, below: Figures, key: Callable[[Figure], tuple[int, int]]
) -> list[tuple[Figure, Figure]]:
    partners: Mapping[tuple[int, int], Figure] = {key(each): each for each in below.all}
    return [(each, partners[key(each)]) for each in above.all if key(each) in partners]


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
