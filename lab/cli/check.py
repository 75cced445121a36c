"""`lab check`: one table of what storage, network and RDMA of a lab carry."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.options import seconds_option
from lab.deadline import Deadline
from lab.errors import InputError

if TYPE_CHECKING:
    from lab.check import CheckReport

CHECK_S = 30 * 60.0


def check(
    lab: Annotated[
        str | None, typer.Argument(help="A lab's name or its YAML file; without it, the only lab.")
    ] = None,
    runtime: Annotated[str, typer.Option(help="Measure each for this long.")] = "2s",
    runs: Annotated[int, typer.Option(min=1, help="Measure each so often.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> int:
    """Measure every data disk, link and RDMA device. Overwrites the data disks.

    Exits 5 when a measurement failed, 4 when nothing was measured.
    """
    from lab.check import run_check
    from lab.check_plan import Profile
    from lab.progress import Progress
    from lab.running import find

    runtime_s = seconds_option("--runtime", runtime)
    if not 0.5 <= runtime_s <= 600:
        raise InputError(f"--runtime {runtime}: between 0.5s and 10min")
    with find(_name(lab) if lab else None) as running:
        report = run_check(
            running,
            deadline=Deadline(CHECK_S),
            progress=Progress(),
            profile=Profile(runtime_s=runtime_s, runs=runs),
        )
    if as_json:
        print(json.dumps(as_document(report), indent=1))
    else:
        print_table(report)
    return int(report.exit_code)


def _name(lab: str) -> str:
    """The name of the lab that was brought up from the YAML file `lab`, or is called so."""
    from lab.record import records

    source = str(Path(lab).resolve())
    named = [record.identity.name for record in records() if record.source == source]
    return named[0] if len(named) == 1 else lab


def as_document(report: CheckReport) -> dict[str, Any]:
    """The report as `--json` prints it; `value` is the median of `values`, one a run."""
    return {
        "accelerator": report.accelerator,
        "elapsed_s": round(report.elapsed_s, 3),
        "rows": [
            {
                "what": row.what,
                "guests": row.place,
                "fidelity": row.fidelity,
                **(asdict(row.median) if row.median else {}),
                "values": [figure.value for figure in row.figures],
                "error": row.error,
            }
            for row in report.rows
        ],
    }


def print_table(report: CheckReport) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"lab check, {report.elapsed_s:.0f} s", box=SIMPLE)
    for heading in ("what", "guests"):
        table.add_column(heading)
    table.add_column("figure", justify="right")
    for heading in ("accelerator", "fidelity"):
        table.add_column(heading)
    table.add_column("runs", justify="right")
    for row in report.rows:
        figure = Text("failed", style="bold red") if row.error else Text(_figure(row.median))
        table.add_row(
            row.what, row.place, figure, report.accelerator, row.fidelity, str(len(row.figures))
        )
    # What is no terminal is taken to be 80 columns wide: too narrow for a log to be read well.
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    if not report.rows:
        print("nothing to measure: no data disks, and no two guests on a segment", file=sys.stderr)
    for row in report.rows:
        if row.error:
            print(f"{row.what}, {row.place}: {row.error}", file=sys.stderr)


def _figure(metric: Any) -> str:
    digits = 0 if metric.value >= 100 else 2
    return f"{metric.value:,.{digits}f} {metric.unit}"
