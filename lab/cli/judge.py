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
    from lab.experiments.findings import exit_code
    from lab.report.load import load_report
    from lab.report.terminal import print_report
    from lab.results.run_directory import RunDirectory

    report = load_report(RunDirectory(run), topology)
    print_report(report)
    return int(exit_code(report.verdict))
