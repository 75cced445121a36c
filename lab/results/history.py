"""What a metric did over the nights: its last value against a band of the earlier ones.

Only runs that can be compared are: of the last run's topology, profile, accelerator and
definition of the variant, and with no obstacle between their fingerprints. The others are named
with what differs. Another agent is no obstacle: it is what nights are compared for.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from lab.results.fingerprint import obstacles
from lab.results.store import Series, StoredFinding, StoredRun
from lab.stats.change_points import ChangePoint, change_points

# Of the prediction interval: one night in a hundred is outside by chance.
CONFIDENCE = 0.99
MIN_EARLIER = 3

Place = Literal["within", "above", "below", "no band"]


@dataclass(frozen=True)
class LeftOut:
    """A run that cannot be compared with the last one, and why."""

    run: str
    why: str


@dataclass(frozen=True)
class Trend:
    """One metric of one variant over the comparable runs, the last run included.

    `low` .. `high` is where the last value was to be expected after the earlier ones since the
    last change of level, None with fewer than MIN_EARLIER of them. `changes` index into `series`.
    """

    series: tuple[Series, ...]
    left_out: tuple[LeftOut, ...]
    low: float | None
    high: float | None
    changes: tuple[ChangePoint, ...]

    @property
    def last(self) -> Series:
        return self.series[-1]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(each.value for each in self.series)

    @property
    def place(self) -> Place:
        if self.low is None or self.high is None:
            return "no band"
        if self.last.value < self.low:
            return "below"
        return "above" if self.last.value > self.high else "within"

    def kind(self, change: float) -> str:
        """What a relative change means: no direction of a counter is better."""
        if self.last.direction not in ("higher", "lower"):
            return "a change of level"
        is_better = (change > 0) == (self.last.direction == "higher")
        return "for the better" if is_better else "for the worse"


@dataclass(frozen=True)
class GateHistory:
    """The verdicts of one gate, the oldest first."""

    topology: str
    experiment: str
    gate: str
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """What to show: None is all."""

    metric: str | None = None
    topology: str | None = None
    experiment: str | None = None
    variant: str | None = None

    def matches(self, series: Series) -> bool:
        return all(
            wanted in (None, is_)
            for wanted, is_ in (
                (self.metric, series.metric),
                (self.topology, series.run.topology),
                (self.experiment, series.experiment),
                (self.variant, series.variant),
            )
        )


def trends(series: Sequence[Series], wanted: Wanted) -> tuple[Trend, ...]:
    """A trend for each metric of each variant, by topology and profile.

    `series` are in order of time, the oldest first, as Store.series gives them.
    """
    groups: dict[tuple[str, ...], list[Series]] = defaultdict(list)
    for each in series:
        if wanted.matches(each):
            key = (each.run.topology, each.run.profile, each.experiment, each.variant, each.metric)
            groups[key].append(each)
    return tuple(_trend(groups[key]) for key in sorted(groups))


def gate_histories(
    findings: Sequence[StoredFinding], runs: Sequence[StoredRun], wanted: Wanted
) -> tuple[GateHistory, ...]:
    """Every gate's verdicts, of one topology or experiment if that is wanted; none where one
    metric or variant is: a gate may be on several."""
    if wanted.metric or wanted.variant:
        return ()
    topologies = {run.id: run.topology for run in runs}
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in findings:
        topology = topologies[each.run]
        if wanted.topology in (None, topology) and wanted.experiment in (None, each.experiment):
            found[topology, each.experiment, each.gate].append(each.verdict)
    return tuple(GateHistory(*key, verdicts=tuple(found[key])) for key in sorted(found))


def band(earlier: Sequence[float]) -> tuple[float, float] | None:
    """The two-sided prediction interval for one more value of a normal population, with CONFIDENCE.

    mean +- t * s * sqrt(1 + 1/n); Hahn & Meeker, Statistical Intervals (1991), section 4.7.
    None for fewer than MIN_EARLIER values.
    """
    n = len(earlier)
    if n < MIN_EARLIER:
        return None
    t = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    middle = statistics.fmean(earlier)
    half = t * statistics.stdev(earlier) * math.sqrt(1 + 1 / n)
    return middle - half, middle + half


def _trend(group: Sequence[Series]) -> Trend:
    last = group[-1]
    reasons = [(each, _differences(each, last)) for each in group]
    comparable = tuple(each for each, why in reasons if not why)
    left_out = tuple(LeftOut(each.run.id, why) for each, why in reasons if why)
    values = [each.value for each in comparable]
    changes = change_points(values)
    # Over a change of level the band would be as wide as the change.
    since = changes[-1].index if changes else 0
    low, high = band(values[since:-1]) or (None, None)
    return Trend(comparable, left_out, low, high, changes)


def _differences(one: Series, last: Series) -> str:
    """What keeps `one` from being compared with `last`; "" if nothing does."""
    found = obstacles(one.run.fingerprint, last.run.fingerprint)
    if one.run.accelerator != last.run.accelerator:
        found.insert(0, f"accelerator: {one.run.accelerator}, then {last.run.accelerator}")
    if one.definition != last.definition:
        found.append("the variant was defined otherwise")
    if one.unit != last.unit:
        found.append(f"unit: {one.unit}, then {last.unit}")
    return "; ".join(dict.fromkeys(found))
