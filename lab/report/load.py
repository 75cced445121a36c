"""A run directory to a report: what was measured, judged by the gates of today."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from lab.report.model import Report
from lab.results.run_directory import RunDirectory
from lab.topology.lint import check
from lab.topology.load import load


def load_report(run: RunDirectory, topology: Path | None = None) -> Report:
    """Judge `run` by its own topology, or by an edited one at `topology`.

    Raises InputError where there is no run, a damaged one, or no valid topology.
    """
    # Judging imports scipy: errors of input are told before it.
    _ = run.manifest
    loaded = load(topology or run.topology_path)
    check(loaded, None)
    from lab.experiments.judging import report_of

    return report_of(run, loaded, date.today())
