"""`lab judge`: what a run has measured, judged once more, also by gates that were edited since."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def judge(
    run: Annotated[Path, typer.Argument(help="A run's directory.", show_default=False)],
    topology: Annotated[
        Path | None, typer.Option(help="Judge by the gates of this file, not the run's own copy.")
    ] = None,
) -> int:
    """Judge a run and say what came of it; nothing is written, nothing is run.

    Exits as `lab validate` does: 0 only if every gate passes.
    """
    from datetime import date

    from lab.experiments.findings import exit_code
    from lab.results.run_directory import RunDirectory
    from lab.topology.lint import check
    from lab.topology.load import load

    directory = RunDirectory(run)
    # Judging imports scipy: errors of input are told before it.
    _ = directory.manifest
    loaded = load(topology or directory.topology_path)
    check(loaded, None)

    from lab.experiments.judging import report_of
    from lab.report.terminal import print_report

    report = report_of(directory, loaded, date.today())
    print_report(report)
    return int(exit_code(report.verdict))
