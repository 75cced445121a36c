"""How fast the agent is, beside tools in C that do the same, in the same guest.

    .venv/bin/python -m tests.bench.agent [--runs 5] [--only storage] [--lab NAME]

Both sides are interleaved (A B B A), and the ratio is that of their medians. An instrument must
not be what it measures: where a ratio falls short of its floor, the table says so.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import statistics
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from lab.cli.options import check_writable
from lab.deadline import Deadline
from lab.progress import Progress
from lab.running import RunningLab
from tests.bench.command import run
from tests.bench.labs import topology_lab
from tests.bench.speed.common import Row

PARTS = ("storage", "bulk", "ping_pong", "verbs")
MEASUREMENT_S = 180.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--lab", help="a lab that is up and fits; else one is made")
    parser.add_argument("--out", type=Path, help="keep every figure here, as JSON")
    options = parser.parse_args()
    if options.out:
        check_writable("--out", options.out)
    rows = [
        row
        for part in options.only or PARTS
        for row in importlib.import_module(f"tests.bench.speed.{part}").ROWS
    ]
    progress = Progress()
    figures: dict[str, tuple[list[float], list[float]]] = {}
    accelerator = ""
    for topology, group in itertools.groupby(
        sorted(rows, key=lambda row: row.topology), lambda row: row.topology
    ):
        with topology_lab(topology, options.lab, progress) as lab:
            lab.settle()
            accelerator = lab.accelerator
            for row in group:
                figures[row.name] = _measure(lab, row, options.runs, progress)
    if options.out:
        options.out.write_text(json.dumps(figures))
    print(f"{date.today()}, accelerator {accelerator}, {options.runs} runs a side, interleaved")
    print("| what | agent | tool in C | ratio | floor | |\n|---|---|---|---|---|---|")
    for row in rows:
        print(_line(row, *figures[row.name]))


def _measure(
    lab: RunningLab, row: Row, runs: int, progress: Progress
) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(runs):
        sides = [(row.ours, ours), (row.theirs, theirs)]
        for measure, values in sides if number % 2 == 0 else reversed(sides):
            with progress.step(f"{row.name} {number + 1}/{runs}"):
                values.append(measure(lab, Deadline(MEASUREMENT_S)))
    return ours, theirs


def _line(row: Row, ours: Sequence[float], theirs: Sequence[float]) -> str:
    ratio = statistics.median(ours) / statistics.median(theirs)
    floor = "reported" if row.floor is None else f"{row.floor:g}"
    word = "" if row.floor is None else "met" if ratio >= row.floor else "short"
    sides = f"{_range(ours)} | {_range(theirs)}"
    return f"| {row.name}, {row.unit} | {sides} | {ratio:.2f} | {floor} | {word} |"


def _range(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.4g} ({min(values):,.4g} .. {max(values):,.4g})"


if __name__ == "__main__":
    run(main)
