"""A gate in a sentence."""

from __future__ import annotations

from lab.experiments.outcome import bare_percent
from lab.topology.experiment import Direction, Gate, Side


def sentence(gate: Gate, direction: Direction | None) -> str:
    """What `gate` claims; `direction` is the one it is judged by."""
    text = _claim(gate, direction)
    if gate.separated:
        text += ", ranges apart"
    if gate.at_least:
        needs = gate.at_least
        text += f", with {needs.times:g} times the {needs.metric} of {needs.of}"
    if gate.fails_on:
        text += f"; fails on {gate.fails_on}"
    return text


def name_of(side: Side) -> str:
    return side if isinstance(side, str) else " / ".join(side)


def _claim(gate: Gate, direction: Direction | None) -> str:
    variant = name_of(gate.variant)
    baseline = name_of(gate.baseline) if gate.baseline else ""
    if gate.effect is not None:
        side = "below" if direction is Direction.LOWER else "above"
        if gate.effect < 0:
            other = "above" if side == "below" else "below"
            least = f"no more than {bare_percent(-gate.effect)} {other}"
        else:
            least = f"at least {bare_percent(gate.effect)} {side}" if gate.effect else side
        return f"{variant} {gate.metric} {least} {baseline}"
    if gate.within is not None:
        return f"{variant} {gate.metric} within {bare_percent(gate.within)} of {baseline}"
    if gate.rate is not None:
        return f"{variant} {gate.metric} in a share of trials {gate.rate}"
    if gate.value is not None:
        return f"{variant} {gate.metric} {gate.value} in the mean"
    if gate.each is not None:
        return f"{variant} {gate.metric} {gate.each} in every trial"
    return f"{variant} {gate.metric}" + (f" against {baseline}" if baseline else "")
