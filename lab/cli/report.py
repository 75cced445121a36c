"""`lab report`: the reports of a run once more, also by gates that were edited since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="A run's directory.", show_default=False)],
    topology: Annotated[
        Path | None, typer.Option(help="Judge by the gates of this file, not the run's own copy.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> int:
    """Judge what a run has measured, and write its report.html, report.json and report.junit.xml.

    Exits as `lab validate` does: 0 only if every gate passes.
    """
    from lab.experiments.findings import exit_code
    from lab.report.json_report import document
    from lab.report.load import load_report
    from lab.report.terminal import print_report
    from lab.report.write import write
    from lab.results.run_directory import RunDirectory

    made = load_report(RunDirectory(run), topology)
    paths = write(made)
    if as_json:
        print(json.dumps(document(made), indent=1))
    else:
        print_report(made)
        print(f"written: {', '.join(str(path) for path in paths)}")
    return int(exit_code(made.verdict))
