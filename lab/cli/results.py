"""`lab import` and `lab compare`: results of other tools and of earlier runs."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.errors import Exit, InputError, NothingMeasured

if TYPE_CHECKING:
    from lab.results.comparison import Comparison
    from lab.results.importers.source import Reading
    from lab.results.series import Series


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)],
    format: Annotated[
        str | None, typer.Option(help="The files' format; found out without it.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, which `lab compare` takes as well.")
    ] = False,
) -> int:
    """Read results of secnetperf, fio, iperf3, sockperf, perftest, DISKSPD, Go, or a CSV table.

    Every file is a run, or holds several. Exits 4 if there is no figure in them.
    """
    from lab.results.importers.formats import read_files
    from lab.results.importers.own import as_document

    reading = read_files(files, format)
    if as_json:
        print(json.dumps(as_document(reading), indent=1))
    if not reading.series:
        raise NothingMeasured("no figure in it", where=", ".join(map(str, files)))
    if not as_json:
        _print_reading(reading)
    return int(Exit.OK)


def compare(
    base: Annotated[str, typer.Argument(help="A file, directory of files, or run.")],
    new: Annotated[str, typer.Argument(help="The same; FILE:LABEL is a part of a file.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="Only this metric; may be given again.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="The chance of a false alarm, a metric.")] = 0.01,
    paired: Annotated[
        bool, typer.Option("--paired", help="Runs of the same name were made together.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> int:
    """Judge NEW against BASE: each metric improved, regressed or inconclusive.

    Exits 1 if any regressed, 3 if nothing could be told. Runs of `lab validate` are compared only
    if they were made under the same conditions.
    """
    from lab.results.comparison import compare as compare_series
    from lab.results.comparison import exit_code, unmatched

    if not 0 < alpha < 0.5:
        raise InputError(f"--alpha {alpha:g}: above 0 and below 0.5, such as 0.01")
    before, after, notes = _sides(base, new, paired)
    before, after = _only(before, metric, base), _only(after, metric, new)
    found = compare_series(before, after, alpha=alpha, is_paired=paired)
    notes += unmatched(before, after)
    if as_json:
        print(json.dumps({"alpha": alpha, "notes": notes, "metrics": list(map(_told, found))}))
    else:
        _print_comparisons(found, alpha)
        for note in notes:
            print(f"note: {note}")
    return int(exit_code(found))


def _sides(
    base: str, new: str, is_paired: bool
) -> tuple[Sequence[Series], Sequence[Series], list[str]]:
    from lab.results.measured import is_run, of_files, of_runs

    match is_run(Path(base)), is_run(Path(new)):
        case True, True:
            if is_paired:
                raise InputError("--paired: the boots of two runs are different boots")
            before, after, notes = of_runs(Path(base), Path(new))
        case False, False:
            before, after, notes = of_files(base), of_files(new), []
        case _:
            raise InputError(
                "a run and imported results: nothing says that they were measured alike",
                where=f"{base}, {new}",
                hint="compare two runs, or two imports",
            )
    for side, series in ((base, before), (new, after)):
        if not series:
            raise NothingMeasured("no figure in it", where=side)
    return before, after, notes


def _only(series: Sequence[Series], metrics: Sequence[str] | None, side: str) -> Sequence[Series]:
    if not metrics:
        return series
    known = dict.fromkeys(each.metric for each in series)
    for name in metrics:
        if name not in known:
            raise InputError(f"no metric `{name}`: there are {', '.join(known)}", where=side)
    return [each for each in series if each.metric in metrics]


def _told(each: Comparison) -> dict[str, Any]:
    change = each.change
    low, high = change.interval if change else (inf, inf)
    return {
        "labels": each.variant,
        "metric": each.metric,
        "unit": each.unit,
        "better": each.better,
        "outcome": each.outcome,
        "estimate": _finite(change.estimate if change else inf),
        "low": _finite(low),
        "high": _finite(high),
        "detectable": _finite(change.detectable if change else inf),
        "separated": each.is_separated,
        "p_separated": each.p_separated,
        "base": each.base,
        "new": each.new,
        "why": each.why,
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if isfinite(value) else None


def _print_reading(reading: Reading) -> None:
    table = _table("metric", "labels", "unit", "better", "runs", "median", "lowest", "highest")
    for each in reading.series:
        figures = (statistics.median(each.values), min(each.values), max(each.values))
        table.add_row(
            each.metric,
            each.variant,
            each.unit,
            each.better,
            str(len(each.boots)),
            *map(_figure, figures),
        )
    _print(table)
    for name, histogram in reading.histograms.items():
        samples = sum(count for _, count in histogram)
        print(f"histogram {name}: {samples:,} samples in {len(histogram)} bins")


def _print_comparisons(found: Sequence[Comparison], alpha: float) -> None:
    table = _table(
        "labels", "metric", "runs", "change", "interval", "shows", "separated", "verdict"
    )
    for each in found:
        change = each.change
        low, high = change.interval if change else (0.0, 0.0)
        table.add_row(
            each.variant,
            f"{each.metric}, {each.unit}",
            f"{len(each.base)} -> {len(each.new)}",
            f"{change.estimate:+.1%}" if change else "-",
            f"{low:+.1%} .. {high:+.1%}" if change else "-",
            f"{change.detectable:.1%}" if change else "-",
            f"p = {each.p_separated:.3g}" if each.is_separated else "no",
            each.outcome,
        )
    _print(table)
    print(
        f"interval: where the change is with confidence {1 - alpha:g}; "
        "shows: the least change that so many runs show"
    )
    for why in dict.fromkeys(each.why for each in found if each.why):
        print(f"note: {why}")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"


def _table(*headings: str) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _WORDS else "right")
    return table


_WORDS = ("metric", "labels", "unit", "better", "verdict")


def _print(table: Any) -> None:
    from rich.console import Console

    # What is no terminal is taken to be 80 columns wide: too narrow for a log to be read well.
    Console(width=None if sys.stdout.isatty() else 140, markup=False).print(table)
