"""`lab history`: what metrics and gates did over the nights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import cannot_write
from lab.errors import NothingMeasured


def history(
    metric: Annotated[str | None, typer.Argument(help="Only this metric or counter.")] = None,
    topology: Annotated[str | None, typer.Option(help="Only of this topology.")] = None,
    experiment: Annotated[str | None, typer.Option(help="Only of this experiment.")] = None,
    variant: Annotated[str | None, typer.Option(help="Only of this variant.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write plots into this file, too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> int:
    """Show each metric's last value against the band of the earlier runs, and where it drifted.

    Drift alarms are no gates: the exit code is 0 with them, too. Exits 4 where nothing is recorded.
    """
    from lab.report import history as report
    from lab.results.history import Wanted, gate_histories, trends
    from lab.results.store import default_path, opened

    wanted = Wanted(metric, topology, experiment, variant)
    path = default_path()
    if not path.exists():
        raise NothingMeasured(
            "no run is recorded yet", where=str(path), hint="`lab validate TOPOLOGY` records one"
        )
    with opened(path) as store:
        series, findings, runs = store.series(), store.findings(), store.runs()
    shown = trends(series, wanted)
    if not shown:
        known = sorted({each.metric for each in series})
        raise NothingMeasured(
            "no run has measured that" if series else "no run is recorded yet",
            where=str(path),
            hint=f"metrics: {', '.join(known)}" if known else "`lab validate TOPOLOGY` records one",
        )
    gates = gate_histories(findings, runs, wanted)
    if as_json:
        print(json.dumps(report.as_document(shown, gates), indent=1))
    else:
        report.print_history(shown, gates)
    if html:
        try:
            html.write_text(report.html(shown, gates))
        except OSError as error:
            raise cannot_write("--html", html, error) from None
    return 0
