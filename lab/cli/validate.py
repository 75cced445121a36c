"""`lab validate`: topologies to verdicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from secrets import randbelow
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import accelerator_option, profile_option, seconds_option
from lab.deadline import Deadline
from lab.errors import Exit, InputError, LabError

if TYPE_CHECKING:
    from lab.experiments.validation import Wanted
    from lab.progress import Progress
    from lab.report.model import Report
    from lab.results.run_directory import RunDirectory
    from lab.topology.load import LoadedTopology

DEFAULT_RUNS = Path("runs")


def validate(
    topologies: Annotated[
        list[Path] | None, typer.Argument(help="Topology files with `experiments:`.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="quick (fewer and shorter trials), or full, the default.", metavar="PROFILE"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Fixes the order of trials; random without it.", min=0)
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this experiment; may be given again.")
    ] = None,
    sequential: Annotated[
        bool,
        typer.Option("--sequential", help="Stop once all is clear; else go on to twice the boots."),
    ] = False,
    accel: Annotated[
        str, typer.Option(help="auto, kvm (never falls back) or tcg.", metavar="ACCEL")
    ] = "auto",
    runs: Annotated[Path, typer.Option(help="Where runs are kept.")] = DEFAULT_RUNS,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with this run, which was cut short.")
    ] = None,
    timeout: Annotated[str, typer.Option(help="The deadline of it all.")] = "12h",
) -> int:
    """Run the experiments of topologies, and judge them: exit code 0 only if every gate passes."""
    from lab.experiments.validation import Wanted, check_wanted
    from lab.progress import Progress
    from lab.topology.lint import check
    from lab.topology.load import load

    chosen = profile_option(profile or "full")
    accelerator = accelerator_option(accel)
    if bool(topologies) == bool(resume):
        raise InputError("give topologies, or a run with --resume", hint="`lab validate --help`")
    deadline = Deadline(seconds_option("--timeout", timeout))
    progress = Progress()
    if resume:
        if profile or only or sequential or seed is not None:
            raise InputError(
                "--resume goes on with what the run was begun with",
                hint="leave --profile, --seed, --only and --sequential out",
            )
        return int(_resume(resume, progress, deadline))
    wanted = Wanted(
        profile=chosen,
        seed=randbelow(2**31) if seed is None else seed,
        accelerator=accelerator,
        sequential=sequential,
        only=tuple(only or ()),
    )
    loaded = [load(path) for path in topologies or ()]
    for each in loaded:
        check(each, None)
        check_wanted(each, wanted)
    return int(_validate(loaded, wanted, runs, progress, deadline))


def _validate(
    topologies: Sequence[LoadedTopology],
    wanted: Wanted,
    runs: Path,
    progress: Progress,
    deadline: Deadline,
) -> Exit:
    from lab.experiments.findings import worst_exit
    from lab.experiments.validation import begin, collect

    codes = []
    reports = []
    for loaded in topologies:
        progress.say(f"validating {loaded.path}")
        run, environment = begin(loaded, wanted, runs, progress=progress, deadline=deadline)
        progress.say(f"run: {run.path} (cut short, it goes on with --resume {run.path})")
        error = collect(run, environment, progress=progress, deadline=deadline)
        report, code = _judge(run, error)
        reports.append(report)
        codes.append(code)
    if len(reports) > 1:
        print()
        for report in reports:
            print(f"{report.manifest.source}: {report.verdict} ({report.directory}/report.html)")
    return worst_exit(codes)


def _resume(path: Path, progress: Progress, deadline: Deadline) -> Exit:
    from lab.experiments.validation import collect, resume

    run, environment = resume(path, progress=progress, deadline=deadline)
    error = collect(run, environment, progress=progress, deadline=deadline)
    return _judge(run, error)[1]


def _judge(run: RunDirectory, error: LabError | None) -> tuple[Report, Exit]:
    """Print and keep what came of a run; the lab's own failure counts, too."""
    from lab.experiments.findings import exit_code, worst_exit
    from lab.report.load import load_report
    from lab.report.terminal import print_report
    from lab.report.write import write
    from lab.results import store

    report = load_report(run)
    print_report(report)
    write(report)
    store.record(report)
    if error:
        print(f"lab: {error}", file=sys.stderr)
    code = exit_code(report.verdict)
    return report, worst_exit([code, error.exit_code]) if error else code
