"""`lab check`: does every disk, link and RDMA device of a lab carry traffic, and how much?

Each measurement is a row of the report, measured or failed, and one that fails does not keep the
others from being made.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from lab.check_plan import Agents, Check, CheckedLab, Profile, plan_checks
from lab.deadline import Deadline
from lab.errors import Exit, LabError
from lab.guest.agent_client import AgentError, Fidelity, Metric
from lab.progress import Progress

# One measurement with its start-up in an emulated guest, beside the time it measures for.
MEASUREMENT_S = 60.0


@dataclass(frozen=True)
class CheckRow:
    """A measurement that was made: one figure a run, or why there is none."""

    what: str
    place: str
    fidelity: Fidelity
    figures: tuple[Metric, ...]
    error: str | None = None

    @property
    def median(self) -> Metric | None:
        if not self.figures:
            return None
        first = self.figures[0]
        value = statistics.median(figure.value for figure in self.figures)
        return Metric(first.name, first.unit, first.direction, value)


@dataclass(frozen=True)
class CheckReport:
    accelerator: str
    rows: tuple[CheckRow, ...]
    elapsed_s: float

    @property
    def exit_code(self) -> Exit:
        """NOTHING_MEASURED without a single figure, BROKEN_LAB if any measurement failed."""
        if not any(row.figures for row in self.rows):
            return Exit.NOTHING_MEASURED
        return Exit.BROKEN_LAB if any(row.error for row in self.rows) else Exit.OK


def run_check(
    lab: CheckedLab, *, deadline: Deadline, progress: Progress, profile: Profile
) -> CheckReport:
    """Measure all that `lab` has, one thing at a time. Failures are rows, not exceptions."""
    rows: list[CheckRow] = []
    checks = plan_checks(lab, profile)
    with ExitStack() as stack:
        agents = Agents(lab, stack)
        with progress.step("check") as step:
            step.note("waiting for the guests to settle")
            _settle(agents, deadline.within(MEASUREMENT_S))
            for number, check in enumerate(checks, start=1):
                step.note(f"{number}/{len(checks)} {check.what}, {check.place}")
                rows.append(_make(check, agents, deadline, profile.runs))
    return CheckReport(lab.accelerator, tuple(rows), deadline.elapsed_s)


def _settle(agents: Agents, deadline: Deadline) -> None:
    """Measure no guest that is still busy with its boot; one that cannot settle is lost."""

    def settle(name: str) -> None:
        try:
            agents.lab.guests[name].settle(deadline)
        except LabError as error:
            agents.lose((name,), error)

    with ThreadPoolExecutor(len(agents.lab.guests)) as pool:
        list(pool.map(settle, agents.lab.guests))


def _make(check: Check, agents: Agents, deadline: Deadline, runs: int) -> CheckRow:
    figures: list[Metric] = []
    error: str | None = None
    try:
        for _ in range(runs):
            deadline.check(f"the check of {check.place}")
            result = check.measure(agents, deadline.within(MEASUREMENT_S))
            figure = result[check.metric]
            if figure.value <= 0:
                error = f"it ran and carried nothing: {figure}"
                break
            figures.append(figure)
    except AgentError as problem:
        error = str(problem)
    except LabError as problem:
        agents.lose(check.guests, problem)
        error = str(problem)
    return CheckRow(check.what, check.place, check.fidelity, tuple(figures), error)
