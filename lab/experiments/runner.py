"""Collect the samples of a run: boot after boot, each trial on disk when it is taken.

Judging is another step (lab.experiments.gates): what was collected can be judged again and again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.bringup import bound_lab
from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.experiments import noise
from lab.experiments.design import UNPATCHED, PlannedBoot, Slot, remaining
from lab.experiments.trials import GuestLost, now, put_agents, take
from lab.preparation import Prepared, WantedAccelerator, prepare
from lab.progress import Progress
from lab.results.run_directory import Boot, CannotWrite, RunDirectory
from lab.results.trial import Trial
from lab.running import RunningLab
from lab.topology.experiment import Experiment
from lab.topology.load import LoadedTopology
from lab.topology.problem import did_you_mean
from lab.topology.variants import with_patch

# A lab that breaks twice in a row is not going to be repaired by a third boot.
BROKEN_IN_A_ROW = 2
LOGS_S = 30.0

Experiments = Mapping[str, Experiment]


class Environment:
    """The topology as each group of variants has it, prepared when it is first needed."""

    def __init__(
        self,
        loaded: LoadedTopology,
        *,
        wanted: WantedAccelerator,
        progress: Progress,
        deadline: Deadline,
    ) -> None:
        self.loaded = loaded
        self._wanted = wanted
        self._progress = progress
        self._deadline = deadline
        self._prepared: dict[str, Prepared] = {}

    def prepared(self, group: str = UNPATCHED) -> Prepared:
        if group not in self._prepared:
            self._prepared[group] = prepare(
                self._topology(group),
                wanted=self._wanted,
                progress=self._progress,
                deadline=self._deadline,
            )
        return self._prepared[group]

    def _topology(self, group: str) -> LoadedTopology:
        if group == UNPATCHED:
            return self.loaded
        experiment, _, variant = group.partition("/")
        return with_patch(self.loaded, experiment, variant)


class Collector:
    """Fills a run directory; what it has already, of a killed run, is not run again."""

    def __init__(
        self,
        run: RunDirectory,
        experiments: Experiments,
        environment: Environment,
        *,
        progress: Progress,
        deadline: Deadline,
    ) -> None:
        self._run = run
        self._experiments = experiments
        self._environment = environment
        self._progress = progress
        self._deadline = deadline
        self._source = Path(run.manifest.source)
        self.trials = run.trials()
        self.boots = {boot.number: boot for boot in run.boots()}
        self._done = 0
        self._left_of_all = 0
        self._start_s = 0.0

    def collect(self, planned: Sequence[PlannedBoot]) -> None:
        """Run all that is missing of `planned`. Raises LabError where the lab stays broken."""
        self._start_s = time.monotonic()
        self._done = 0
        self._left_of_all = sum(len(remaining(each, self.trials)) for each in planned)
        broken = 0
        for each in planned:
            while slots := remaining(each, self.trials):
                before = len(self.trials)
                error = self._boot(each, slots)
                broken = 0 if error is None else broken + 1
                if error and broken == BROKEN_IN_A_ROW:
                    error.hint = (
                        f"what was measured is kept; --resume {self._run.path} goes on with it"
                    )
                    raise error
                if error is None and len(self.trials) == before:
                    break

    def _boot(self, planned: PlannedBoot, slots: Sequence[Slot]) -> LabError | None:
        """One boot and what can be run in it; what broke it, if anything did."""
        host = noise.look()
        boot = Boot(
            number=max(self.boots, default=0) + 1,
            planned_boot=planned.number,
            group=planned.group,
            started=now(),
            noise=host,
            warnings=tuple(noise.warnings(host)),
        )
        for warning in boot.warnings:
            self._progress.say(f"warning: {warning}")
        self._keep(boot)
        start_s = time.monotonic()
        broken: LabError | None = None
        prepared = self._environment.prepared(planned.group)
        try:
            with bound_lab(prepared, progress=self._progress, deadline=self._deadline) as lab:
                boot = replace(boot, phases_s=lab.record.phases)
                lab.settle()
                put_agents(lab, self._experiments, slots, self._source.parent)
                try:
                    self._trials_of(lab, boot, slots)
                except LabError:
                    keep_logs(lab, self._run, boot.number)
                    raise
                keep_logs(lab, self._run, boot.number)
        except (CannotWrite, InputError):
            raise
        except LabError as error:
            broken = error
        elapsed_s = round(time.monotonic() - start_s, 1)
        self._keep(replace(boot, elapsed_s=elapsed_s, error=str(broken) if broken else None))
        return broken

    def _trials_of(self, lab: RunningLab, boot: Boot, slots: Sequence[Slot]) -> None:
        for slot in slots:
            experiment = self._experiments[slot.experiment]
            title = f"{slot.experiment}: {slot.variant} {slot.number}, {self._outlook()}"
            with self._progress.step(title) as step:
                try:
                    trial = take(
                        lab,
                        experiment,
                        slot,
                        boot=boot.number,
                        planned_boot=boot.planned_boot,
                        deadline=self._deadline,
                        on_progress=step.note if self._progress.is_live else None,
                    )
                except GuestLost as error:
                    self._run.append_trial(error.trial)
                    self.trials.append(error.trial)
                    raise
                self._run.append_trial(trial)
            self.trials.append(trial)
            self._done += 1
            if trial.error:
                self._progress.say(f"{slot.experiment}: {slot.variant}: {trial.error}")
            check_metrics(self._environment.loaded, self._experiments, self.trials, slot)

    def _outlook(self) -> str:
        """Which trial this is, and how long the rest takes if it takes as long as those before."""
        place = f"trial {self._done + 1} of {max(self._left_of_all, self._done + 1)}"
        if not self._done:
            return place
        # Boots are in it, too.
        mean_s = (time.monotonic() - self._start_s) / self._done
        left_s = mean_s * max(0, self._left_of_all - self._done)
        left = f"{left_s / 60:.0f} min" if left_s >= 120 else f"{left_s:.0f} s"
        return f"{place}, {left} left"

    def _keep(self, boot: Boot) -> None:
        self.boots[boot.number] = boot
        self._run.append_boot(boot)


def check_metrics(
    loaded: LoadedTopology, experiments: Experiments, trials: Iterable[Trial], slot: Slot
) -> None:
    """Raise InputError for a gate on something that `slot`'s first whole trial does not have.

    A counter that says when something happened is absent where it did not: only names that no
    trial of the experiment has, once each of the gate's variants has one, are an error.
    """
    experiment = experiments[slot.experiment]
    whole = [each for each in trials if each.experiment == slot.experiment and each.is_whole]
    measured = {each.variant for each in whole}
    if measured != set(experiment.variants):
        return
    known = {metric.name for each in whole for metric in each.metrics}
    known |= {name for each in whole for name in each.counters}
    for name, gate in experiment.gates.items():
        wanted = [("metric", gate.metric)]
        if gate.at_least:
            wanted.append(("at_least", gate.at_least.metric))
        for field, metric in wanted:
            if metric not in known:
                raise InputError(
                    f"gate `{name}` is about `{metric}`, which the workload does not measure",
                    where=loaded.where(("experiments", slot.experiment, "gates", name, field)),
                    hint=did_you_mean(metric, sorted(known)),
                )


def keep_logs(lab: RunningLab, run: RunDirectory, boot: int) -> None:
    """Consoles and kernel logs of the guests, as far as they can still be had."""
    directory = run.log_directory(boot)
    directory.mkdir(parents=True, exist_ok=True)
    deadline = Deadline(LOGS_S)
    for name, guest in lab.guests.items():
        if guest.plan.console_log.exists():
            text = guest.plan.console_log.read_bytes()
            (directory / f"{name}.console.log").write_bytes(text)
        try:
            done = guest.session(deadline).run("dmesg", deadline=deadline)
            text = done.stdout.encode()
        except LabError as error:
            text = f"not to be had: {error}\n".encode()
        (directory / f"{name}.dmesg.log").write_bytes(text)
