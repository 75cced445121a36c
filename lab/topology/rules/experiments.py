"""What an experiment cannot be: names that nothing defines, claims that say nothing.

The metrics of a workload are known only once it has run: see lab.experiments.runner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lab.errors import InputError
from lab.topology.experiment import Experiment, Gate
from lab.topology.model import Topology
from lab.topology.problem import Loc, did_you_mean
from lab.topology.rules import Finding, Host

if TYPE_CHECKING:
    from lab.topology.experiment import Side

# What a gate can claim; `effect` and `within` compare with a baseline.
CLAIMS = ("effect", "within", "rate", "value", "each", "report")


def each_gate(topology: Topology) -> Iterator[tuple[Loc, Experiment, Gate]]:
    for name, experiment in topology.experiments.items():
        for gate_name, gate in experiment.gates.items():
            yield ("experiments", name, "gates", gate_name), experiment, gate


def engines_take_what_they_are_given(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """As `lab run` checks it, for both profiles; a port and an address are the lab's to give."""
    # The agent's declarations are loaded only for topologies with experiments.
    from lab.experiments.design import effective
    from lab.experiments.parameters import engine_of, parameters_of
    from lab.guest import catalogue

    found: set[Finding] = set()
    for profile in ("full", "quick"):
        for name, experiment in effective(topology.experiments, profile).items():
            for variant in experiment.variants:
                try:
                    runnable = catalogue.find(engine_of(experiment, variant))
                    runnable.check_asked(parameters_of(experiment, variant))
                except InputError as error:
                    loc = ("experiments", name, "variants", variant)
                    message = f"variant `{variant}` of `{name}`: {error.message}"
                    found.add(Finding(loc, message, error.hint))
    yield from sorted(found, key=str)


def guests_exist(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Where something runs is decided in the file, not when it is run."""
    for name, experiment in topology.experiments.items():
        places: list[tuple[Loc, str | None]] = [
            (("workload", end), getattr(experiment.workload, end)) for end in ("guest", "peer")
        ]
        places += [
            (("variants", label, end), getattr(variant, end))
            for label, variant in experiment.variants.items()
            for end in ("guest", "peer")
        ]
        for loc, guest in places:
            if guest is not None and guest not in topology.guests:
                message = f"experiment `{name}` runs in guest `{guest}`, which there is not"
                yield Finding(
                    ("experiments", name, *loc), message, did_you_mean(guest, topology.guests)
                )


def variants_exist(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A gate on a variant that is not run would never be judged."""
    for loc, experiment, gate in each_gate(topology):
        named: Mapping[str, Side | None] = {
            "variant": gate.variant,
            "baseline": gate.baseline,
            "fails_on": gate.fails_on,
            "at_least": gate.at_least.of if gate.at_least else None,
        }
        for field, side in named.items():
            for label in (side,) if isinstance(side, str) else side or ():
                if label not in experiment.variants:
                    yield Finding(
                        (*loc, field),
                        f"gate `{loc[-1]}` is about variant `{label}`, which there is not",
                        did_you_mean(label, experiment.variants),
                    )


def one_claim(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Two claims in one gate could not be told apart in its verdict; none has no verdict."""
    for loc, _, gate in each_gate(topology):
        made = [claim for claim in CLAIMS if claim in gate.model_fields_set]
        if len(made) != 1:
            found = " and ".join(made) or "nothing"
            message = f"gate `{loc[-1]}` claims {found}"
            yield Finding(loc, message, f"one of {', '.join(CLAIMS)}")
        elif made[0] in ("effect", "within") and gate.baseline is None:
            yield Finding(loc, f"`{made[0]}` of gate `{loc[-1]}` needs a `baseline`")
        elif made[0] in ("rate", "value", "each") and gate.baseline is not None:
            yield Finding((*loc, "baseline"), f"`{made[0]}` compares with no `baseline`")
        elif gate.separated and made[0] != "effect":
            yield Finding((*loc, "separated"), "`separated` belongs to an `effect`")


def pairs_match(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A ratio of two variants can be compared with another ratio only."""
    for loc, _, gate in each_gate(topology):
        if gate.baseline is not None and isinstance(gate.variant, str) != isinstance(
            gate.baseline, str
        ):
            message = f"gate `{loc[-1]}` compares a ratio of two variants with one variant"
            yield Finding((*loc, "baseline"), message, "a pair on both sides, or on neither")


def patches_change_what_there_is(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A patch that names another guest would make one, beside those that are measured."""
    for name, experiment in topology.experiments.items():
        for label, variant in experiment.variants.items():
            if variant.topology is None:
                continue
            loc = ("experiments", name, "variants", label, "topology")
            if not variant.topology.keys() <= {"guests", "segments"}:
                yield Finding(loc, "a variant changes guests and segments only")
            guests = variant.topology.get("guests")
            for guest in guests if isinstance(guests, dict) else ():
                if guest not in topology.guests:
                    yield Finding(
                        (*loc, "guests", guest),
                        f"variant `{label}` changes guest `{guest}`, which there is not",
                        did_you_mean(guest, topology.guests),
                    )


def sides_differ(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A variant compared with itself shows nothing, and nothing falls by more than itself."""
    for loc, _, gate in each_gate(topology):
        if gate.baseline is not None and gate.variant == gate.baseline:
            yield Finding((*loc, "baseline"), f"gate `{loc[-1]}` compares a variant with itself")
        if gate.direction == "lower" and gate.effect is not None and gate.effect >= 1:
            message = f"gate `{loc[-1]}` wants a fall by {gate.effect:.0%}"
            yield Finding((*loc, "effect"), message, "less than 100%: 50% is half, 90% a tenth")


def quick_variants_exist(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """What the quick profile changes has to be there in the full one."""
    for name, experiment in topology.experiments.items():
        for label in experiment.quick.variants:
            if label not in experiment.variants:
                message = f"`quick` is about variant `{label}`, which there is not"
                yield Finding(
                    ("experiments", name, "quick", "variants", label),
                    message,
                    did_you_mean(label, experiment.variants),
                )


RULES = (
    guests_exist,
    variants_exist,
    one_claim,
    pairs_match,
    patches_change_what_there_is,
    sides_differ,
    quick_variants_exist,
    engines_take_what_they_are_given,
)
