"""One trial in the guests of a lab that is up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.experiments import noise
from lab.experiments.design import Slot
from lab.experiments.parameters import engine_of, parameters_of
from lab.guest.agent_client import AgentError, OnProgress, Result
from lab.guest.agent_file import agent_bytes
from lab.guest.setup import AGENT_PATH
from lab.results.trial import Trial
from lab.running import RunningLab
from lab.topology.experiment import Experiment
from lab.workload import run_workload


class GuestLost(LabError):
    """A guest went, or did not answer in time: nothing more can be measured in this boot."""

    def __init__(self, trial: Trial, cause: LabError) -> None:
        super().__init__(cause.message, where=cause.where, hint=cause.hint, detail=cause.detail)
        self.trial = trial


def agent_path(name: str, variant: str, experiment: Experiment) -> str:
    """Where the agent of a variant is in the guests: the lab's own, or a build of the variant's."""
    build = experiment.variants[variant].agent
    return f"{AGENT_PATH}-{name}-{variant}" if build else AGENT_PATH


def put_agents(
    lab: RunningLab, experiments: Mapping[str, Experiment], slots: Sequence[Slot], directory: Path
) -> None:
    """Builds that `slots` need, into every guest; `directory` is that of the topology file."""
    for name, label in dict.fromkeys((slot.experiment, slot.variant) for slot in slots):
        if build := experiments[name].variants[label].agent:
            agent = agent_bytes((directory / build).resolve())
            for guest in lab.guests.values():
                guest.put_agent(agent, agent_path(name, label, experiments[name]))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def take(
    lab: RunningLab,
    experiment: Experiment,
    slot: Slot,
    *,
    boot: int,
    planned_boot: int,
    deadline: Deadline,
    on_progress: OnProgress | None,
) -> Trial:
    """Run `slot` once. What the agent refuses or fails is a Trial, too.

    Raises GuestLost, and InputError for what cannot be asked of these guests at all.
    """
    variant = experiment.variants[slot.variant]
    workload = experiment.workload
    trial = Trial(slot.experiment, slot.variant, boot, planned_boot, slot.number, now(), 0.0)
    start_s = time.monotonic()
    try:
        with noise.observed() as seen:
            result = run_workload(
                lab,
                engine_of(experiment, slot.variant),
                parameters_of(experiment, slot.variant),
                guest=variant.guest or workload.guest,
                peer=variant.peer or workload.peer,
                deadline=deadline.within(lab.scaled(experiment.timeout_s).remaining_s),
                on_progress=on_progress,
                agent=agent_path(slot.experiment, slot.variant, experiment),
            )
    except InputError:
        raise
    except LabError as error:
        trial = replace(trial, elapsed_s=round(time.monotonic() - start_s, 3), error=str(error))
        if isinstance(error, AgentError):
            return replace(_with(trial, error.partial), error=error.message, fault="refused")
        raise GuestLost(replace(trial, fault="lost"), error) from error
    elapsed_s = round(time.monotonic() - start_s, 3)
    cut_short = f"cut short after {elapsed_s} s" if result.partial else None
    return replace(_with(trial, result), elapsed_s=elapsed_s, noise=seen.shares, error=cut_short)


def _with(trial: Trial, result: Result | None) -> Trial:
    if result is None:
        return trial
    told: dict[str, Any] = {}
    if run := result.mechanism:
        told = {
            "counters": run.counters,
            "histograms": run.histograms,
            "harness": asdict(run.harness),
            "policy": run.policy,
            "parameters": run.parameters,
            "layer": run.layer,
        }
    return replace(
        trial,
        metrics=result.metrics,
        samples=result.samples,
        fidelity=result.fidelity,
        command=result.command,
        raw=result.raw,
        **told,
    )
