"""The history of metrics: tables with sparklines on a terminal, plots in one HTML file, JSON."""

from __future__ import annotations

import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.results.fingerprint import subjects
from lab.results.history import CONFIDENCE, GateHistory, Trend

BARS = "▁▂▃▄▅▆▇█"
SPARKLINE_NIGHTS = 20
NAMES_SHOWN = 3
NOT_A_GATE = (
    "Drift alarms claim nothing about a change of yours and never fail a command: gates do, with"
    " `lab validate`."
)

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 200, 70, 10, 12, 24


def sparkline(values: Sequence[float]) -> str:
    """The last SPARKLINE_NIGHTS values as bars between the lowest and the highest of them."""
    shown = values[-SPARKLINE_NIGHTS:]
    low, high = min(shown), max(shown)
    if low == high:
        return BARS[len(BARS) // 2] * len(shown)
    return "".join(BARS[round((each - low) / (high - low) * (len(BARS) - 1))] for each in shown)


def print_history(trends: Sequence[Trend], gates: Sequence[GateHistory]) -> None:
    """Trends, drift alarms, runs that were left out, and gates."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE)
    for heading in ("topology", "experiment", "variant", "metric"):
        table.add_column(heading)
    for heading in ("last", f"band ({CONFIDENCE:.0%})", "runs"):
        table.add_column(heading, justify="right")
    table.add_column("")
    table.add_column("over time", no_wrap=True)
    for trend in trends:
        last = trend.last
        table.add_row(
            _topology(trend), last.experiment, last.variant, last.metric,
            f"{last.value:,.4g} {last.unit}", _band(trend), str(len(trend.series)), trend.place,
            sparkline(trend.values),
        )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    for line in [*alarms(trends), *left_out(trends)]:
        print(line)
    if gates:
        gate_table = Table(box=SIMPLE)
        for heading in ("topology", "experiment", "gate", "last", "over all runs"):
            gate_table.add_column(heading)
        for gate in gates:
            gate_table.add_row(
                gate.topology, gate.experiment, gate.gate, gate.verdicts[-1], _counts(gate)
            )
        console.print(gate_table)


def alarms(trends: Sequence[Trend]) -> list[str]:
    """A line for every change of level, and what such a line is worth."""
    lines = []
    for trend in trends:
        for change in trend.changes:
            last_before, since = (each.run for each in trend.series[change.index - 1 :][:2])
            edited = subjects(last_before.fingerprint, since.fingerprint)
            kind = trend.kind(change.change)
            lines.append(
                f"drift: {_name(trend)}: {change.before:,.4g} -> {change.after:,.4g}"
                f" {trend.last.unit} ({change.change:+.1%}, {kind}) since {since.id}"
                + (f", with another {' and '.join(edited)}" if edited else "")
            )
    return [*lines, NOT_A_GATE] if lines else []


def left_out(trends: Sequence[Trend]) -> list[str]:
    """A line for every reason not to compare runs, with the runs' names."""
    runs: dict[str, dict[str, None]] = defaultdict(dict)
    for trend in trends:
        for each in trend.left_out:
            runs[each.why][each.run] = None
    return [f"left out: {_few(list(names))}: {why}" for why, names in runs.items()]


def _few(names: Sequence[str]) -> str:
    if len(names) <= NAMES_SHOWN:
        return ", ".join(names)
    return f"{names[0]} .. {names[-1]} ({len(names)} runs)"


def as_document(trends: Sequence[Trend], gates: Sequence[GateHistory]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "trends": [
            {
                "topology": trend.last.run.topology,
                "profile": trend.last.run.profile,
                "accelerator": trend.last.run.accelerator,
                "experiment": trend.last.experiment,
                "variant": trend.last.variant,
                "metric": trend.last.metric,
                "unit": trend.last.unit,
                "direction": trend.last.direction,
                "runs": [
                    {"id": each.run.id, "created": each.run.created, "boots": list(each.boots)}
                    for each in trend.series
                ],
                "last": trend.last.value,
                "low": trend.low,
                "high": trend.high,
                "place": trend.place,
                "changes": [
                    {
                        "run": trend.series[each.index].run.id,
                        "before": each.before,
                        "after": each.after,
                        "p": each.p,
                    }
                    for each in trend.changes
                ],
                "left_out": [{"run": each.run, "why": each.why} for each in trend.left_out],
            }
            for trend in trends
        ],
        "gates": [
            {
                "topology": gate.topology,
                "experiment": gate.experiment,
                "gate": gate.gate,
                "verdicts": list(gate.verdicts),
            }
            for gate in gates
        ],
    }


@dataclass(frozen=True)
class Plot:
    """The coordinates of a trend in an SVG image of _WIDTH x _HEIGHT."""

    line: str
    dots: tuple[tuple[float, float, str], ...]
    levels: tuple[tuple[float, float, float], ...]
    changes: tuple[float, ...]
    band: tuple[float, float] | None
    ticks: tuple[tuple[float, str], ...]


def plot(trend: Trend) -> Plot:
    """Dots of runs, the levels between change points, and the band of the last run."""
    values = trend.values
    shown = [*values, *(each for each in (trend.low, trend.high) if each is not None)]
    low, high = min(shown), max(shown)
    if low == high:
        low, high = low - (abs(low) or 1) * 0.1, high + (abs(high) or 1) * 0.1

    def x(index: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * (index + 0.5) / len(values), 1)

    def y(value: float) -> float:
        return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low), 1)

    bounds = [0, *(each.index for each in trend.changes), len(values)]
    levels = (
        (x(start - 0.5), x(end - 0.5), y(sum(values[start:end]) / (end - start)))
        for start, end in itertools.pairwise(bounds)
    )
    return Plot(
        line=" ".join(f"{x(index)},{y(value)}" for index, value in enumerate(values)),
        dots=tuple(
            (x(index), y(each.value), f"{each.run.id}: {each.value:,.5g} {each.unit}")
            for index, each in enumerate(trend.series)
        ),
        levels=tuple(levels),
        changes=tuple(x(each.index - 0.5) for each in trend.changes),
        band=None if trend.low is None or trend.high is None else (y(trend.high), y(trend.low)),
        ticks=tuple((y(value), f"{value:,.4g}") for value in (low, (low + high) / 2, high)),
    )


def html(trends: Sequence[Trend], gates: Sequence[GateHistory]) -> str:
    """One page that needs no other file, in the reader's light or dark."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lab.report"), autoescape=True, undefined=StrictUndefined
    )
    sections: list[Mapping[str, Any]] = [
        {
            "name": _name(trend),
            "trend": trend,
            "plot": plot(trend),
            "band": _band(trend),
            "alarms": [line for line in alarms([trend]) if line != NOT_A_GATE],
        }
        for trend in trends
    ]
    return environment.get_template("history.html.j2").render(
        sections=sections,
        gates=[{"gate": gate, "counts": _counts(gate)} for gate in gates],
        left_out=left_out(trends),
        not_a_gate=NOT_A_GATE,
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        confidence=f"{CONFIDENCE:.0%}",
    )


def _name(trend: Trend) -> str:
    last = trend.last
    return f"{_topology(trend)} {last.experiment} {last.variant} {last.metric}"


def _topology(trend: Trend) -> str:
    run = trend.last.run
    return run.topology if run.profile == "full" else f"{run.topology} ({run.profile})"


def _band(trend: Trend) -> str:
    if trend.low is None or trend.high is None:
        return "-"
    return f"{trend.low:,.4g} .. {trend.high:,.4g}"


def _counts(gate: GateHistory) -> str:
    return ", ".join(f"{n} {verdict}" for verdict, n in Counter(gate.verdicts).most_common())
