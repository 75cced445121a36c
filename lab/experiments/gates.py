"""Judge samples: pure, so that what was collected can be judged again, by other gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date

from lab.experiments import gates_change, gates_single, harness
from lab.experiments.claims import sentence
from lab.experiments.comparison import compare
from lab.experiments.figures import Unmeasured, figures, variants_of
from lab.experiments.findings import Finding, Verdict
from lab.experiments.notes import notes
from lab.experiments.outcome import Kind, Outcome
from lab.experiments.proof import fails_before, times_the_operations, tried_enough
from lab.guest.agent_client import Metric
from lab.results.run_directory import Boot
from lab.results.trial import Trial
from lab.stats.sequential import alpha_at
from lab.topology.experiment import Direction, Experiment, Gate, KnownIssue, Side


def judge(
    experiments: Mapping[str, Experiment],
    trials: Sequence[Trial],
    boots: Sequence[Boot],
    *,
    today: date,
    alpha: float = 0.01,
    look: int = 1,
    looks: int = 1,
) -> tuple[Finding, ...]:
    """A finding for each gate, in their order.

    `alpha` is the share of false alarms a gate may raise; of a run that is judged while it is
    made, over all its `looks`, of which this is number `look` (see lab.stats.sequential).
    """
    allowed = alpha_at(look, looks, alpha)
    return tuple(
        _judge(
            _Question(
                experiment=name,
                name=gate_name,
                gate=gate,
                trials=[trial for trial in trials if trial.experiment == name],
                boots=boots,
                alpha=allowed,
            ),
            today,
        )
        for name, experiment in experiments.items()
        for gate_name, gate in experiment.gates.items()
    )


@dataclass(frozen=True)
class _Question:
    """A gate with the trials of its experiment."""

    experiment: str
    name: str
    gate: Gate
    trials: Sequence[Trial]
    boots: Sequence[Boot]
    alpha: float

    @property
    def metric(self) -> Metric | None:
        """The gate's metric as the variant's trials have it, None for a counter."""
        names = variants_of(self.gate.variant)
        found = (
            trial.metric(self.gate.metric)
            for trial in self.trials
            if trial.variant in names and trial.is_whole
        )
        return next((each for each in found if each), None)

    @property
    def direction(self) -> Direction | None:
        if self.gate.direction:
            return self.gate.direction
        return Direction(self.metric.direction) if self.metric else None

    @property
    def unit(self) -> str:
        is_ratio = not isinstance(self.gate.variant, str)
        return self.metric.unit if self.metric and not is_ratio else ""

    @property
    def variants(self) -> tuple[str, ...]:
        """Every variant that the gate looks at."""
        gate = self.gate
        return tuple(
            dict.fromkeys(
                (
                    *variants_of(gate.variant),
                    *variants_of(gate.baseline),
                    *variants_of(gate.fails_on),
                    *variants_of(gate.at_least.of if gate.at_least else None),
                )
            )
        )


def _judge(question: _Question, today: date) -> Finding:
    gate = question.gate
    try:
        outcome = _proven(question, _check(question, gate.variant))
    except Unmeasured as unmeasured:
        outcome = Outcome(unmeasured.verdict, unmeasured.why, _kind(gate))
    if gate.control:
        outcome = _of_control(outcome)
    if gate.known_issue:
        outcome = _expected(outcome, gate.known_issue, today)
    told = notes(question.experiment, question.variants, question.trials, question.boots)
    shared = {each.name for each in fields(Outcome)} & {each.name for each in fields(Finding)}
    return Finding(
        experiment=question.experiment,
        gate=question.name,
        metric=gate.metric,
        unit=question.unit,
        claim=sentence(gate, question.direction),
        confidence=1 - question.alpha,
        reference=gate.reference or "",
        is_control=gate.control,
        **{
            **{name: getattr(outcome, name) for name in shared},
            "notes": (*outcome.notes, *told),
        },
    )


def _check(question: _Question, side: Side) -> Outcome:
    """What the gate's claim comes to for `side`. Raises Unmeasured."""
    gate, alpha = question.gate, question.alpha
    found = figures(side, gate.metric, question.trials, question.boots)
    if gate.rate is not None:
        return gates_single.rate(found, gate.rate, alpha)
    if gate.value is not None:
        return gates_single.value(found, gate.value, question.unit, alpha)
    if gate.each is not None:
        return gates_single.each(found, gate.each, question.unit, alpha)
    if gate.baseline is None:
        return gates_single.report(found, question.unit, alpha)
    baseline = figures(gate.baseline, gate.metric, question.trials, question.boots)
    comparison = compare(baseline, found, alpha)
    if gate.within is not None:
        return gates_change.within(comparison, gate.within)
    if gate.effect is None:
        return gates_change.report(comparison)
    if question.direction is None:
        return replace(
            gates_change.report(comparison),
            verdict=Verdict.INCONCLUSIVE,
            why=f"`{gate.metric}` is a counter: say `direction: higher` or `lower` in the gate",
        )
    concerned = {*variants_of(side), *variants_of(gate.baseline)}
    return gates_change.effect(
        comparison,
        gate.effect,
        question.direction,
        separated=gate.separated,
        alpha=alpha,
        least_claimed=harness.least_effect(
            question.unit, [trial for trial in question.trials if trial.variant in concerned]
        ),
    )


def _proven(question: _Question, outcome: Outcome) -> Outcome:
    """A pass is one only if it was tried enough, and if the check can fail."""
    gate = question.gate
    times = None
    if gate.at_least:
        times = times_the_operations(gate.at_least, variants_of(gate.variant), question.trials)
        outcome = tried_enough(outcome, gate.at_least, times)
    if gate.fails_on:
        try:
            before = _check(question, gate.fails_on)
        except Unmeasured:
            before = None
        if gate.at_least and gate.at_least.of != gate.fails_on:
            times = None
        outcome = fails_before(outcome, before, gate.fails_on, question.alpha, times=times)
    return outcome


def _of_control(outcome: Outcome) -> Outcome:
    """A control passes by not showing the effect."""
    match outcome.verdict:
        case Verdict.PASS:
            return replace(outcome, why=f"the control does not show the effect: {outcome.why}")
        case Verdict.FAIL:
            return replace(outcome, why=f"the control shows the effect: {outcome.why}")
    return outcome


def _expected(outcome: Outcome, issue: KnownIssue, today: date) -> Outcome:
    """A known issue is to fail until it expires, and to be removed once it does not."""
    told = f"{issue.reason} ({issue.link})"
    if outcome.verdict is Verdict.PASS:
        why = f"known issue no longer fails: remove it: {told}; {outcome.why}"
        return replace(outcome, verdict=Verdict.FAIL, why=why)
    if outcome.verdict is not Verdict.FAIL:
        return outcome
    if today > issue.expires:
        why = f"known issue expired on {issue.expires}: {told}; {outcome.why}"
        return replace(outcome, why=why)
    why = f"known issue until {issue.expires}: {told}; {outcome.why}"
    return replace(outcome, verdict=Verdict.KNOWN, why=why)


def _kind(gate: Gate) -> Kind:
    if gate.rate is not None:
        return "rate"
    return "change" if gate.baseline is not None else "value"
