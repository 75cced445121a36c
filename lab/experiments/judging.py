"""Judge what a run has collected: when and as often as one likes, also after editing the gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from lab.errors import InputError
from lab.experiments.design import effective
from lab.experiments.findings import Finding, Verdict
from lab.experiments.gates import judge
from lab.report.model import Report
from lab.results.run_directory import Boot, Manifest, RunDirectory
from lab.results.trial import Trial
from lab.topology.experiment import MAX_BOOTS, Experiment
from lab.topology.load import LoadedTopology

# A sequential run looks from its second boot on, and goes on to so many times the planned boots.
FIRST_LOOK_BOOTS = 2
SEQUENTIAL_TIMES = 2


def experiments_of(manifest: Manifest, loaded: LoadedTopology) -> dict[str, Experiment]:
    """Those of the run, as its profile has them, with the most boots that it may come to."""
    found = {
        name: experiment
        for name, experiment in effective(loaded.topology.experiments, manifest.profile).items()
        if not manifest.only or name in manifest.only
    }
    if not manifest.sequential:
        return found
    return {
        name: each.model_copy(
            update={"boots": min(MAX_BOOTS, max(2, each.boots) * SEQUENTIAL_TIMES)}
        )
        for name, each in found.items()
    }


def judge_run(
    manifest: Manifest,
    experiments: Mapping[str, Experiment],
    trials: Sequence[Trial],
    boots: Sequence[Boot],
    today: date,
) -> tuple[Finding, ...]:
    """A finding for each gate; a sequential run's at the look that its boots have come to."""
    if not manifest.sequential:
        return judge(experiments, trials, boots, today=today)
    findings: list[Finding] = []
    for name, experiment in experiments.items():
        looks = experiment.boots - FIRST_LOOK_BOOTS + 1
        planned = [each.planned_boot for each in trials if each.experiment == name]
        look = min(looks, max(1, max(planned, default=0) - FIRST_LOOK_BOOTS + 1))
        findings += judge({name: experiment}, trials, boots, today=today, look=look, looks=looks)
    return tuple(findings)


def is_settled(findings: Sequence[Finding], experiment: str) -> bool:
    """Whether no further boot could be wanted for the gates of `experiment`."""
    return not any(
        each.verdict is Verdict.INCONCLUSIVE and each.experiment == experiment for each in findings
    )


def report_of(run: RunDirectory, loaded: LoadedTopology, today: date) -> Report:
    """The run with its judgement by the gates of `loaded`, its own topology or an edited one."""
    manifest = run.manifest
    experiments = experiments_of(manifest, loaded)
    trials, boots = run.trials(), run.boots()
    for name in {trial.experiment for trial in trials} - experiments.keys():
        raise InputError(
            f"the run measured experiment `{name}`, which this topology does not have",
            where=str(loaded.path),
            hint=f"judge by an edited copy of {run.topology_path}",
        )
    findings = judge_run(manifest, experiments, trials, boots, today)
    return Report(
        directory=run.path,
        manifest=manifest,
        experiments=experiments,
        findings=findings,
        trials=tuple(trials),
        boots=tuple(boots),
    )
