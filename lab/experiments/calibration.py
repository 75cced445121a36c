"""What this lab can tell: its noise and false alarms, from trials of identical variants (A/A).

Whatever such variants seem to differ in is noise. From it follows the smallest effect that a
number of boots would show.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from random import Random

from lab.results.trial import Trial
from lab.stats import paired
from lab.stats.change import Change
from lab.stats.variance_components import Components, components

BOOTS = (3, 5, 10)
# Of gates, too.
ALPHA = 0.01
SPLITS = 500
SEED = 1


@dataclass(frozen=True)
class Calibration:
    """The noise of one metric. Spreads and effects are relative, 0.02 for 2 %.

    `trials` are those of a variant in a boot. `within` is the standard deviation of trials of a
    boot, `between` that of boots, `false_alarms` the share of SPLITS random splits of the boots'
    own trials into two sides that the paired test tells apart at ALPHA. `paired` and
    `alternating` are the smallest effects (boots a side -> effect) that are shown with power 0.8
    where variants share their boots, and where each needs boots of its own. None, or absent, is
    what so few boots and trials do not tell.
    """

    experiment: str
    metric: str
    unit: str
    boots: int
    trials: int
    within: float | None
    between: float | None
    false_alarms: float | None
    paired: Mapping[int, float]
    alternating: Mapping[int, float]


def calibrate(trials: Sequence[Trial]) -> tuple[Calibration, ...]:
    """One for each metric of each experiment, whose variants are all the same but for the name.

    Trials that failed are left out, and so are metrics that were not positive in every trial:
    they have no relative spread.
    """
    groups: dict[tuple[str, str, str], list[tuple[Trial, float]]] = defaultdict(list)
    for trial in trials:
        if trial.is_whole:
            for metric in trial.metrics:
                key = (trial.experiment, metric.name, metric.unit)
                groups[key].append((trial, metric.value))
    return tuple(
        _calibration(*key, values)
        for key, values in sorted(groups.items())
        if all(value > 0 for _, value in values)
    )


def _calibration(
    experiment: str, metric: str, unit: str, values: Sequence[tuple[Trial, float]]
) -> Calibration:
    by_boot: dict[int, list[float]] = defaultdict(list)
    for trial, value in values:
        by_boot[trial.boot].append(value)
    boots = list(by_boot.values())
    spread = components([[log(value) for value in boot] for boot in boots])
    counts = Counter((trial.boot, trial.variant) for trial, _ in values)
    trials = max(1, round(statistics.fmean(counts.values())))
    return Calibration(
        experiment=experiment,
        metric=metric,
        unit=unit,
        boots=len(boots),
        trials=trials,
        within=spread.within,
        between=spread.between,
        false_alarms=_false_alarms(boots),
        paired=dict(_paired_effects(spread, trials)),
        alternating=dict(_alternating_effects(spread, trials)),
    )


def _false_alarms(boots: Sequence[Sequence[float]]) -> float | None:
    if len(boots) < 2 or min(map(len, boots)) < 2:
        return None
    random = Random(SEED)
    alarms = 0
    for _ in range(SPLITS):
        sides = [_split(boot, random) for boot in boots]
        change = paired.compare([a for a, _ in sides], [b for _, b in sides], ALPHA)
        alarms += change is not None and change.p_value < ALPHA
    return alarms / SPLITS


def _split(values: Sequence[float], random: Random) -> tuple[list[float], list[float]]:
    shuffled = random.sample(values, len(values))
    half = len(values) // 2
    return shuffled[:half], shuffled[half : 2 * half]


def _paired_effects(spread: Components, trials: int) -> Iterator[tuple[int, float]]:
    """What boots differ in cancels; what is left is the noise of both sides' trials."""
    if spread.within is None:
        return
    of_boot = spread.within * sqrt(2 / trials)
    for boots in BOOTS:
        yield boots, _detectable(of_boot / sqrt(boots), of_boot, boots - 1, boots)


def _alternating_effects(spread: Components, trials: int) -> Iterator[tuple[int, float]]:
    """Boots of either side differ among each other, and their trials as well."""
    if spread.within is None or spread.between is None:
        return
    of_difference = sqrt(2 * (spread.between**2 + spread.within**2 / trials))
    for boots in BOOTS:
        yield (
            boots,
            _detectable(of_difference / sqrt(boots), of_difference, 2 * (boots - 1), boots),
        )


def _detectable(standard_error: float, spread: float, df: float, boots: int) -> float:
    no_change = Change(
        mean=0.0, standard_error=standard_error, spread=spread, df=df, boots=boots, alpha=ALPHA,
        is_log=True,
    )  # fmt: skip
    return no_change.detectable
