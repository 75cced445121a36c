"""A report on the terminal: a table an experiment, readable at 100 columns and without colour."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.experiments.findings import Finding, Verdict
from lab.report import wording
from lab.report.model import Report
from lab.units import counted

# Colour only repeats what the words say.
STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.NOTHING_MEASURED: "yellow",
    Verdict.BROKEN_LAB: "bold magenta",
    Verdict.KNOWN: "cyan",
    Verdict.REPORTED: "dim",
}


def print_report(report: Report, console: Console | None = None) -> None:
    """What was run, a table of gates for each experiment, and the verdict."""
    # What is no terminal is taken to be 80 columns wide: too narrow for a log to be read well.
    console = console or Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print(Text(head(report), style="bold"), soft_wrap=True)
    noted = {note for finding in report.findings for note in finding.notes}
    for boot in report.boots:
        for warning in boot.warnings:
            line = f"boot {boot.number}: {warning}"
            if line not in noted:
                _line(console, line)
    for name, experiment in report.experiments.items():
        findings = report.of(name)
        title = f"{name}: {experiment.what}" if experiment.what else name
        console.print()
        console.print(Text(title, style="bold"))
        console.print(_table(findings))
        shared = wording.shared_notes(findings)
        for finding in findings:
            _explain(console, finding, shared)
        for note, count in shared.items():
            _line(console, f"{counted(count, 'gate')}: {note}")
    console.print()
    verdict = Text.assemble(
        "verdict: ",
        (str(report.verdict), STYLES[report.verdict]),
        f" ({wording.tally(report.findings)})",
    )
    console.print(verdict, soft_wrap=True)
    # Not wrapped: it is there to be copied.
    console.print(Text(f"repeat with: {report.manifest.command}"), soft_wrap=True)


def head(report: Report) -> str:
    """One line: what was run, where, and how much of it."""
    manifest = report.manifest
    return (
        f"{manifest.topology}: {manifest.accelerator}, {wording.fidelity(report)};"
        f" {wording.boots_made(report)}; {wording.trials_made(report)};"
        f" profile {manifest.profile}, seed {manifest.seed}"
    )


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("gate", overflow="fold")
    table.add_column("measured", justify="right")
    confidences = {finding.confidence for finding in findings}
    level = f"{confidences.pop() * 100:g} % " if len(confidences) == 1 else ""
    table.add_column(f"{level}interval", justify="right")
    table.add_column("detectable", justify="right")
    table.add_column("published", justify="right", max_width=22)
    table.add_column("verdict", no_wrap=True)
    for each in findings:
        table.add_row(
            Text(f"{each.gate} (control)" if each.is_control else each.gate),
            wording.measured(each),
            wording.interval(each) or wording.NOTHING,
            wording.detectable(each),
            Text(each.reference or wording.NOTHING),
            Text(str(each.verdict), style=STYLES[each.verdict]),
        )
    return table


def _explain(console: Console, finding: Finding, shared: Collection[str]) -> None:
    """What does not go without saying: a pass needs no reason, only its notes."""
    is_expected = finding.verdict in (Verdict.PASS, Verdict.REPORTED)
    told = replace(finding, why="") if is_expected else finding
    lines = wording.remarks(told, shared)
    if lines and not is_expected and finding.claim:
        lines.insert(0, f"claimed: {finding.claim}")
    for number, line in enumerate(lines):
        if number == 0:
            _line(console, f"{finding.gate}: {line}")
        else:
            _line(console, line, indent=4)


def _line(console: Console, text: str, *, indent: int = 2) -> None:
    """`text`, wrapped within its indent: rich would fill the lines up with spaces."""
    for line in text.splitlines():
        wrapped = textwrap.fill(
            line,
            console.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 2),
            break_on_hyphens=False,
        )
        console.print(Text(wrapped), soft_wrap=True)
