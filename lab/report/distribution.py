"""Distributions of raw samples: the share of them above a value, down to the rarest."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from markupsafe import Markup

from lab.report.svg import (
    WIDTH,
    Scale,
    area,
    colour,
    drawing,
    line,
    path,
    scale_of,
    text,
    tick_text,
)
from lab.results.trial import Trial

LEVELS_A_DECADE = 12
RAREST = 1e-6
# A boot with fewer samples of a kind has no distribution to show: the bins of a series, say.
FEWEST = 50
LEFT = 50.0
RIGHT = WIDTH - 10.0
HEIGHT = 200.0
BOTTOM = HEIGHT - 20


@dataclass(frozen=True)
class Distribution:
    """Distinct `values` in order; `counts[i]` samples are `values[i]` or less."""

    values: Sequence[float]
    counts: Sequence[int]

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, int]]) -> Distribution:
        """From values with how often each was seen, in any order."""
        seen: Counter[float] = Counter()
        for value, count in pairs:
            seen[value] += count
        values = sorted(value for value, count in seen.items() if count > 0)
        return cls(values, list(accumulate(seen[value] for value in values)))

    @property
    def size(self) -> int:
        return self.counts[-1] if self.counts else 0

    def above(self, share: float) -> float:
        """The smallest sample that no more than `share` of all samples exceed."""
        rank = max(1.0, (1 - share) * self.size)
        # Rounding must not ask for a sample beyond the last.
        return self.values[min(bisect_left(self.counts, rank - 1e-6), len(self.values) - 1)]


# Variant -> boot -> distribution.
ByBoot = dict[str, dict[int, Distribution]]


def distributions(trials: Sequence[Trial]) -> dict[str, ByBoot]:
    """What the trials carry of samples and histograms, by its name, variant and boot."""
    pairs: dict[str, dict[str, dict[int, list[tuple[float, int]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for trial in trials:
        carried: Mapping[str, Iterable[tuple[float, int]]] = {
            **dict(_buckets(trial)),
            **{name: [(each, 1) for each in told] for name, told in trial.samples.items()},
        }
        for name, told in carried.items():
            pairs[name][trial.variant][trial.boot] += told
    return {
        name: {
            variant: {boot: Distribution.of(told) for boot, told in boots.items() if told}
            for variant, boots in variants.items()
        }
        for name, variants in pairs.items()
    }


def _buckets(trial: Trial) -> Iterable[tuple[str, Sequence[tuple[int, int]]]]:
    """Histograms as lab.guest.agent_client.MechanismRun has them: a unit and [lowest, count]."""
    for name, told in trial.histograms.items():
        yield f"{name}, {told['unit']}", [(lowest, count) for lowest, count in told["buckets"]]


def tail_plot(name: str, of: ByBoot, variants: Sequence[str]) -> Markup | None:
    """For each variant the median boot, in a band from the lowest to the highest of its boots.

    Both axes are logarithmic where the samples reach far, since it is the tail that is looked for;
    a value is drawn down to the share that a boot's samples can tell. None for few samples.
    """
    curves = {variant: _curve(boots) for variant, boots in of.items()}
    curves = {variant: curve for variant, curve in curves.items() if curve}
    if not curves:
        return None
    every = [value for curve in curves.values() for _, *values in curve for value in values]
    across = scale_of(every, LEFT, RIGHT, wide=8)
    rarest = min(share for curve in curves.values() for share, *_ in curve)
    down = Scale(rarest, 1, BOTTOM, 10, is_log=True)
    drawn = []
    for tick in across.ticks():
        x = across.at(tick)
        drawn.append(line(x, 10, x, BOTTOM, "grid"))
        drawn.append(text(x, BOTTOM + 14, tick_text(tick), class_="tick", anchor="middle"))
    share = 1.0
    while share >= rarest * 0.999:
        y = down.at(share)
        drawn.append(line(LEFT, y, RIGHT, y, "grid"))
        drawn.append(text(LEFT - 4, y + 4, f"{share * 100:g} %", class_="tick", anchor="end"))
        share /= 10
    for index, variant in enumerate(variants):
        if curve := curves.get(variant):
            lows = [(across.at(low), down.at(share)) for share, low, _, _ in curve]
            highs = [(across.at(high), down.at(share)) for share, _, _, high in curve]
            drawn.append(area([*lows, *reversed(highs)], f"band {colour(index)}"))
            middle = [(across.at(mid), down.at(share)) for share, _, mid, _ in curve]
            drawn.append(path(middle, f"curve {colour(index)}"))
    return drawing(drawn, height=HEIGHT, label=f"share of samples above a value: {name}")


def _curve(boots: Mapping[int, Distribution]) -> list[tuple[float, float, float, float]]:
    """(share above, lowest, median, highest of the boots), as far down as every boot can tell."""
    fewest = min((each.size for each in boots.values()), default=0)
    if fewest < FEWEST:
        return []
    rarest = max(RAREST, 1 / fewest)
    curve = []
    step = 0
    while (share := 10 ** (-step / LEVELS_A_DECADE)) >= rarest * 0.999:
        values = [each.above(share) for each in boots.values()]
        curve.append((share, min(values), median(values), max(values)))
        step += 1
    return curve
