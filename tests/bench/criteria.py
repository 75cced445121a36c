"""The pass criteria of a published change, measured in the guests of its topology.

    .venv/bin/python -m tests.bench.criteria msquic --out msquic.jsonl [--runs 5] [--lab NAME]
    .venv/bin/python -m tests.bench.criteria msquic --judge msquic.jsonl

Variants are interleaved within one boot. Every trial with its samples is in the file as soon as
it is taken; `--judge` makes the table again from there. The table shows our figure beside the
published relative effect, never as if it were theirs.
"""

from __future__ import annotations

import argparse
import importlib
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from secrets import token_hex

from lab.bringup import bound_lab
from lab.cli.options import check_writable
from lab.deadline import Deadline
from lab.preparation import prepare
from lab.progress import Progress
from lab.running import RunningLab, find
from lab.topology.load import load
from tests.bench.command import run
from tests.bench.seeds.common import markdown, read

ROOT = Path(__file__).parents[2]
SEEDS = ("msquic", "winverbs", "vioscsi", "hn")
UP_S = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", choices=SEEDS)
    parser.add_argument("--runs", type=int, help="runs a variant, where the seed leaves it open")
    parser.add_argument("--lab", help="a lab of the seed's topology that is up; else one is made")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, help="where to keep the trials; must not exist")
    where.add_argument("--judge", type=Path, help="trials of an earlier run")
    options = parser.parse_args()
    seed = importlib.import_module(f"tests.bench.seeds.{options.seed}")
    if options.out:
        if options.out.exists():
            parser.error(f"{options.out} exists: earlier trials are not added to")
        check_writable("--out", options.out)
        progress = Progress()
        with topology_lab(seed.TOPOLOGY, options.lab, progress) as lab:
            lab.settle()
            seed.collect(lab, runs=options.runs, out=options.out, progress=progress)
            print(f"{date.today()}, accelerator {lab.accelerator}, topology {seed.TOPOLOGY}")
    trials = read(options.out or options.judge)
    print(markdown(seed.judge(trials)))
    for error in trials.errors():
        print(f"trial failed: {error}")


def topology_lab(
    topology: str, name: str | None, progress: Progress
) -> AbstractContextManager[RunningLab]:
    """The lab called `name`; without one, a lab of `topology` that goes with this process."""
    if name:
        return find(name)
    loaded = load(ROOT / "topologies" / topology)
    deadline = Deadline(UP_S)
    prepared = prepare(loaded, wanted="auto", progress=progress, deadline=deadline)
    unique = f"{loaded.topology.name[:32]}-{token_hex(3)}"
    return bound_lab(prepared, unique, progress=progress, deadline=deadline)


if __name__ == "__main__":
    run(main)
