"""`lab calibrate`: what this host, with these guests and workloads, can tell at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import accelerator_option, profile_option, seconds_option
from lab.cli.validate import DEFAULT_RUNS
from lab.deadline import Deadline
from lab.errors import Exit


def calibrate(
    topology: Annotated[Path, typer.Argument(help="A topology with `experiments:`.")],
    profile: Annotated[
        str, typer.Option(help="full, or quick: shorter trials.", metavar="PROFILE")
    ] = "full",
    boots: Annotated[int, typer.Option(min=2, max=200, help="Boots to compare.")] = 3,
    trials: Annotated[int, typer.Option(min=2, max=1000, help="Trials in each of them.")] = 4,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this experiment; may be given again.")
    ] = None,
    accel: Annotated[
        str, typer.Option(help="auto, kvm (never falls back) or tcg.", metavar="ACCEL")
    ] = "auto",
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = DEFAULT_RUNS,
    timeout: Annotated[str, typer.Option(help="The deadline of it all.")] = "12h",
) -> int:
    """Run identical variants (A/A): spreads, false alarms, and the smallest effect to be shown."""
    from lab.experiments.aa import identical
    from lab.experiments.calibration import calibrate as noise_of
    from lab.experiments.validation import Wanted, begin, check_wanted, collect
    from lab.progress import Progress
    from lab.report.calibration import print_calibration
    from lab.topology.lint import check
    from lab.topology.load import load

    chosen = profile_option(profile)
    accelerator = accelerator_option(accel)
    deadline = Deadline(seconds_option("--timeout", timeout))
    loaded = load(topology)
    check(loaded, None)
    wanted = Wanted("full", 0, accelerator, only=tuple(only or ()))
    check_wanted(loaded, wanted)
    same = identical(loaded, chosen, boots=boots, trials=trials)
    progress = Progress()
    run, environment = begin(same, wanted, runs, progress=progress, deadline=deadline)
    error = collect(run, environment, progress=progress, deadline=deadline)
    if calibrations := noise_of(run.trials()):
        print_calibration(calibrations)
        print(f"{run.manifest.accelerator}; samples in {run.path}")
    if error:
        print(f"lab: {error}", file=sys.stderr)
        return int(error.exit_code)
    return int(Exit.OK if calibrations else Exit.NOTHING_MEASURED)
