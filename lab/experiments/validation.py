"""A topology to a verdict: make or continue a run, collect its samples, judge them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.experiments.design import Profile, effective, plan
from lab.experiments.judging import (
    FIRST_LOOK_BOOTS,
    experiments_of,
    is_settled,
    judge_run,
)
from lab.experiments.runner import Collector, Environment
from lab.preparation import WantedAccelerator
from lab.progress import Progress
from lab.results import fingerprint
from lab.results.run_directory import Manifest, RunDirectory
from lab.topology.load import LoadedTopology, load
from lab.topology.problem import did_you_mean


@dataclass(frozen=True)
class Wanted:
    """What the user asked for. `only` are experiments, all of them if empty."""

    profile: Profile
    seed: int
    accelerator: WantedAccelerator
    sequential: bool = False
    only: tuple[str, ...] = ()

    def command(self, source: Path) -> str:
        """What makes the same run again: the same trials in the same order."""
        words = [
            "lab",
            "validate",
            str(source),
            "--profile",
            self.profile,
            "--seed",
            str(self.seed),
        ]
        words += [f"--only={name}" for name in self.only]
        words += ["--sequential"] if self.sequential else []
        return shlex.join(words)


def check_wanted(loaded: LoadedTopology, wanted: Wanted) -> None:
    """Raise InputError where the file has no experiments, or none of those that are wanted."""
    known = effective(loaded.topology.experiments, wanted.profile)
    if not known:
        raise InputError(
            f"no experiments for the profile {wanted.profile}",
            where=str(loaded.path),
            hint="describe some under `experiments:`; README.md shows how",
        )
    for name in wanted.only:
        if name not in known:
            raise InputError(
                f"no experiment `{name}` for the profile {wanted.profile}",
                where=str(loaded.path),
                hint=did_you_mean(name, known),
            )


def begin(
    loaded: LoadedTopology, wanted: Wanted, runs: Path, *, progress: Progress, deadline: Deadline
) -> tuple[RunDirectory, Environment]:
    """A new run below `runs`, named after the topology and the time."""
    environment = Environment(
        loaded, wanted=wanted.accelerator, progress=progress, deadline=deadline
    )
    prepared = environment.prepared()
    progress.say(f"accelerator: {prepared.machine.accelerator} ({prepared.accelerator_reason})")
    created = datetime.now(UTC)
    identifier = f"{loaded.topology.name}-{created:%Y%m%d-%H%M%S}"
    manifest = Manifest(
        id=identifier,
        topology=loaded.topology.name,
        source=str(loaded.path.resolve()),
        profile=wanted.profile,
        seed=wanted.seed,
        created=created.isoformat(timespec="seconds"),
        command=wanted.command(loaded.path),
        accelerator=prepared.machine.accelerator,
        fingerprint=fingerprint.take(prepared),
        sequential=wanted.sequential,
        only=wanted.only,
    )
    return RunDirectory.create(runs / identifier, manifest, loaded.text), environment


def resume(
    path: Path, *, progress: Progress, deadline: Deadline
) -> tuple[RunDirectory, Environment]:
    """A run that was cut short. Raises InputError where the host is not what it was."""
    run = RunDirectory(path)
    manifest = run.manifest
    loaded = load(run.topology_path)
    wanted: WantedAccelerator = "kvm" if manifest.accelerator == "kvm" else "tcg"
    environment = Environment(loaded, wanted=wanted, progress=progress, deadline=deadline)
    now = fingerprint.take(environment.prepared())
    if differences := fingerprint.differences(manifest.fingerprint, now):
        raise InputError(
            "not what the run was begun with: " + "; ".join(differences),
            where=str(path),
            hint=f"begin a new one: {manifest.command}",
        )
    return run, environment


def collect(
    run: RunDirectory, environment: Environment, *, progress: Progress, deadline: Deadline
) -> LabError | None:
    """Take all trials that the run still lacks; what broke the lab, if that kept it from it."""
    manifest = run.manifest
    experiments = experiments_of(manifest, environment.loaded)
    planned = plan(experiments, manifest.seed)
    with run.writing():
        collector = Collector(run, experiments, environment, progress=progress, deadline=deadline)
        try:
            if not manifest.sequential:
                collector.collect(planned)
                return None
            open_ = dict(experiments)
            for number in range(1, max(each.number for each in planned) + 1):
                collector.collect(
                    [each for each in plan(open_, manifest.seed) if each.number == number]
                )
                if number < FIRST_LOOK_BOOTS:
                    continue
                boots = list(collector.boots.values())
                findings = judge_run(manifest, open_, collector.trials, boots, date.today())
                open_ = {
                    name: each
                    for name, each in open_.items()
                    if number < each.boots and not is_settled(findings, name)
                }
                if not open_:
                    break
        except InputError:
            raise
        except LabError as error:
            return error
    return None
