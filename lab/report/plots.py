"""The plots of a report, as inline SVG: what was measured, beside what was claimed.

Samples of separate boots are never pooled: a boot is a line, a point, or a part of a band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from lab.experiments.findings import Finding
from lab.report import wording
from lab.report.svg import (
    WIDTH,
    Scale,
    area,
    colour,
    drawing,
    element,
    line,
    marker,
    path,
    scale_of,
    text,
    tick_text,
)
from lab.results.trial import Trial
from lab.topology.experiment import Direction, Gate

LEFT = 46.0
RIGHT = WIDTH - 10.0
ROW = 40.0
# A change of more than this factor is drawn at the edge.
MOST_RATIO = 20.0
_FALLS = (-0.95, -0.9, -0.8, -0.65, -0.5, -0.35, -0.2, -0.1, -0.05, -0.02, -0.01)
_RISES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 9.0, 19.0)
CHANGES = (*_FALLS, 0.0, *_RISES)


@dataclass(frozen=True)
class Mark:
    """A gate's row in an interval plot, in the axis' own terms (ratios, or shares)."""

    finding: Finding
    at: float
    low: float
    high: float
    required: tuple[float, ...] = ()
    published: float | None = None

    @property
    def places(self) -> tuple[float, ...]:
        """What has to be seen; an interval may lead out of the plot."""
        published = () if self.published is None else (self.published,)
        return (self.at, *self.required, *published)


def required_changes(gate: Gate | None) -> tuple[float, ...]:
    """The relative changes at the edge of a gate's claim: one of an effect, two of `within`."""
    if gate is None:
        return ()
    if gate.effect is not None:
        return (-gate.effect if gate.direction is Direction.LOWER else gate.effect,)
    if gate.within is not None:
        return (-gate.within, gate.within)
    return ()


def change_intervals(findings: Sequence[Finding], gates: Mapping[str, Gate]) -> Markup | None:
    """Relative changes with their intervals on an axis of ratios; None without any."""
    marks = []
    for each in findings:
        if each.kind == "change" and each.estimate is not None:
            published = wording.published_share(each.reference)
            marks.append(
                Mark(
                    each,
                    _ratio(each.estimate),
                    _ratio(each.estimate if each.low is None else each.low),
                    _ratio(each.estimate if each.high is None else each.high),
                    tuple(_ratio(share) for share in required_changes(gates.get(each.gate))),
                    None if published is None else _ratio(published),
                )
            )
    if not marks:
        return None
    places = [1.0, *(place for mark in marks for place in mark.places)]
    # One interval that is many times wider than all else would leave no room for the others.
    margin = max(1.02, (max(places) / min(places)) ** 0.5)
    low = max(min(places) / margin, min([*places, *(mark.low for mark in marks)]) / 1.02)
    high = min(max(places) * margin, max([*places, *(mark.high for mark in marks)]) * 1.02)
    scale = Scale(low, high, 20, RIGHT - 10, is_log=True)
    ticks = [(1 + change, f"{change * 100:+.0f} %" if change else "0") for change in CHANGES]
    return _intervals(marks, scale, _spaced(ticks, scale), zero=1.0, label="Measured changes")


def rate_intervals(findings: Sequence[Finding], gates: Mapping[str, Gate]) -> Markup | None:
    """Shares of trials with their intervals, from 0 to 100 %; None without any."""
    marks = []
    for each in findings:
        if each.kind == "rate" and each.estimate is not None:
            gate = gates.get(each.gate)
            bound = gate.rate if gate else None
            low = each.estimate if each.low is None else each.low
            high = each.estimate if each.high is None else each.high
            marks.append(
                Mark(each, each.estimate, low, high, (bound.number,) if bound is not None else ())
            )
    if not marks:
        return None
    scale = Scale(0, 1, 20, RIGHT - 12)
    ticks = [(share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return _intervals(marks, scale, ticks, zero=0.0, label="Measured rates")


def _ratio(share: float) -> float:
    return min(MOST_RATIO, max(1 / MOST_RATIO, 1 + share))


def _spaced(ticks: Sequence[tuple[float, str]], scale: Scale) -> list[tuple[float, str]]:
    """Those inside the scale that leave room for their labels, no change first of all."""
    kept: list[tuple[float, str]] = []
    for tick in sorted(ticks, key=lambda each: abs(math.log(each[0]))):
        inside = scale.low <= tick[0] <= scale.high
        if inside and all(abs(scale.at(tick[0]) - scale.at(each[0])) >= 46 for each in kept):
            kept.append(tick)
    return kept


def _intervals(
    marks: Sequence[Mark],
    scale: Scale,
    ticks: Sequence[tuple[float, str]],
    *,
    zero: float,
    label: str,
) -> Markup:
    bottom = ROW * len(marks) + 4
    drawn = []
    for place, words in ticks:
        x = scale.at(place)
        drawn.append(line(x, 4, x, bottom, "zero" if place == zero else "grid"))
        drawn.append(text(x, bottom + 14, words, class_="tick", anchor="middle"))
    for number, mark in enumerate(marks):
        top, y = ROW * number + 4, ROW * number + 28
        finding = mark.finding
        verdict = f"v-{finding.verdict.name.lower()}"
        drawn.append(text(0, top + 11, _short(finding.gate, 30), class_="halo"))
        drawn.append(
            text(RIGHT, top + 11, wording.measured(finding), class_="halo strong", anchor="end")
        )
        for place in mark.required:
            x = scale.at(place)
            drawn.append(line(x, y - 9, x, y + 7, "required"))
        if finding.low is not None or finding.high is not None:
            low, high = scale.at(mark.low), scale.at(mark.high)
            drawn.append(line(low, y, high, y, f"interval {verdict}"))
            drawn.append(_end(low, y, mark.low < scale.low, -1, verdict))
            drawn.append(_end(high, y, mark.high > scale.high, 1, verdict))
        drawn.append(element("circle", cx=scale.at(mark.at), cy=y, r=4.5, class_=f"dot {verdict}"))
        if mark.published is not None:
            x = scale.at(mark.published)
            # Below the interval, which it must not hide.
            drawn.append(area([(x, y + 3), (x + 4.5, y + 10), (x - 4.5, y + 10)], "published"))
    return drawing(drawn, height=bottom + 20, label=label)


def _end(x: float, y: float, is_beyond: bool, way: int, verdict: str) -> Markup:
    """An interval's end, or an arrow where it goes on beyond the plot."""
    if is_beyond:
        return area([(x, y - 4), (x + 6 * way, y), (x, y + 4)], f"beyond {verdict}")
    return line(x, y - 3, x, y + 3, f"interval {verdict}")


def slopes(finding: Finding, variants: Sequence[str]) -> Markup | None:
    """Each boot's mean, from the baseline to the variant; None without two measured sides.

    Lines join what was paired: variants that had boots of their own are points only.
    """
    before, after = finding.baseline, finding.variant
    if finding.kind != "change" or before is None or after is None:
        return None
    means = [[fmean(boot) for boot in side.boots if boot] for side in (before, after)]
    if not all(means):
        return None
    width, height = 176.0, 132.0
    scale = scale_of([*means[0], *means[1]], height - 24, 10)
    ends = (LEFT + 14, width - 26)
    drawn = [
        mark
        for tick in scale.ticks()
        for mark in (
            line(LEFT, scale.at(tick), width - 8, scale.at(tick), "grid"),
            text(LEFT - 4, scale.at(tick) + 4, tick_text(tick), class_="tick", anchor="end"),
        )
    ]
    if finding.pairs and len(means[0]) == len(means[1]):
        for first, last in zip(*means, strict=True):
            drawn.append(path([(ends[0], scale.at(first)), (ends[1], scale.at(last))], "slope"))
    for number, (x, side) in enumerate(zip(ends, (before, after), strict=True)):
        # A ratio of two variants has no colour of its own.
        index = variants.index(side.name) if side.name in variants else number
        drawn += [marker(x, scale.at(mean), index) for mean in means[number]]
    for x, words in zip(ends, ("baseline", "variant"), strict=True):
        drawn.append(text(x, height - 8, words, class_="tick", anchor="middle"))
    label = f"{finding.metric} of each boot, {before.name} and {after.name}"
    return drawing(drawn, height=height, width=width, label=label)


def series(
    metric: str, trials: Sequence[Trial], variants: Sequence[str], bounds: Sequence[float] = ()
) -> Markup | None:
    """Every trial's value in the order of the run, a part a boot; crosses are trials without."""
    values = [trial.value(metric) for trial in trials]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    height = 170.0
    bottom = height - 22
    # A bound far from all that was measured would flatten it.
    reach = max(known) * 3 or math.inf
    shown = [bound for bound in bounds if bound <= reach or bound <= 0]
    scale = scale_of([*known, *shown], bottom - 6, 12, wide=50)
    drawn = _value_grid(scale)
    step = (RIGHT - LEFT - 12) / len(trials)
    boots = [trial.boot for trial in trials]
    last_label = -math.inf
    for number, boot in enumerate(boots):
        x = round(LEFT + 6 + step * number, 1)
        if number and boot == boots[number - 1]:
            continue
        drawn.append(line(x, 8, x, bottom, "boot"))
        if x - last_label >= 22:
            drawn.append(text(x + 2, bottom + 14, f"{boot}", class_="tick"))
            last_label = x
    for bound in shown:
        drawn.append(line(LEFT, scale.at(bound), RIGHT, scale.at(bound), "required"))
    for number, (trial, value) in enumerate(zip(trials, values, strict=True)):
        x = round(LEFT + 6 + step * (number + 0.5), 1)
        if value is None or not math.isfinite(value):
            drawn.append(
                text(x, bottom - 1, "\N{MULTIPLICATION SIGN}", class_="lost", anchor="middle")
            )
        else:
            drawn.append(marker(x, scale.at(value), variants.index(trial.variant), size=3))
    drawn.append(text(LEFT - 4, bottom + 14, "boot", class_="tick", anchor="end"))
    return drawing(drawn, height=height, label=f"{metric} of every trial, in their order")


def _value_grid(scale: Scale) -> list[Markup]:
    drawn = []
    for tick in scale.ticks():
        y = scale.at(tick)
        drawn.append(line(LEFT, y, RIGHT, y, "grid"))
        drawn.append(text(LEFT - 4, y + 4, tick_text(tick), class_="tick", anchor="end"))
    return drawn


def legend_mark(index: int) -> Markup:
    """The line and mark of series `index`, for a legend beside the plot."""
    return element(
        "svg",
        path([(1, 7), (23, 7)], f"curve {colour(index)}"),
        marker(12, 7, index),
        viewBox="0 0 24 14",
        class_="key",
        aria_hidden="true",
    )


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
