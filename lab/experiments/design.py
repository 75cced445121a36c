"""What is run, in which boot and in which order: from the topology and a seed alone. Pure.

The boot is the unit of replication. Variants that can be swapped inside a boot are interleaved
there, in a random order each round; those that change the guests themselves have boots of their
own, which alternate A B B A so that a drift of the host falls on both alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from lab.results.trial import Trial
from lab.topology.experiment import Experiment, Variant

Profile = Literal["quick", "full"]

# The group of the variants that run in the topology as it is.
UNPATCHED = ""


@dataclass(frozen=True)
class Slot:
    """One trial to be made: round `number` of `variant`."""

    experiment: str
    variant: str
    number: int


@dataclass(frozen=True)
class PlannedBoot:
    """`group` names the variant whose topology patch the boot has, `slots` are in their order."""

    number: int
    group: str
    slots: tuple[Slot, ...]


def effective(experiments: Mapping[str, Experiment], profile: Profile) -> dict[str, Experiment]:
    """The experiments as `profile` runs them: what `quick` replaces is replaced."""
    if profile == "full":
        return dict(experiments)
    return {
        name: _quick(experiment)
        for name, experiment in experiments.items()
        if not experiment.quick.skip
    }


def _quick(experiment: Experiment) -> Experiment:
    quick = experiment.quick
    workload = experiment.workload.model_copy(update=quick.workload)
    variants = {
        name: variant.model_copy(update=quick.variants.get(name, {}))
        for name, variant in experiment.variants.items()
    }
    return experiment.model_copy(
        update={
            "workload": type(workload).model_validate(workload.model_dump()),
            "variants": {
                name: Variant.model_validate(each.model_dump()) for name, each in variants.items()
            },
            "trials": quick.trials or experiment.trials,
            "boots": quick.boots or experiment.boots,
        }
    )


def group_of(experiment: str, variant: str, of: Experiment) -> str:
    """Boots are shared by the variants of one group."""
    return f"{experiment}/{variant}" if of.variants[variant].topology else UNPATCHED


def plan(experiments: Mapping[str, Experiment], seed: int) -> list[PlannedBoot]:
    """Every boot with its trials, in order. The same seed gives the same plan."""
    boots = []
    for number in range(1, max((each.boots for each in experiments.values()), default=0) + 1):
        taking_part = {name: each for name, each in experiments.items() if number <= each.boots}
        groups = list(
            dict.fromkeys(
                group_of(name, variant, each)
                for name, each in taking_part.items()
                for variant in each.variants
            )
        )
        if number % 2 == 0:
            groups.reverse()
        for group in groups:
            random = Random(f"{seed} {number} {group}")
            boots.append(PlannedBoot(number, group, tuple(_slots(taking_part, group, random))))
    return boots


def _slots(experiments: Mapping[str, Experiment], group: str, random: Random) -> Iterator[Slot]:
    for name in random.sample(list(experiments), len(experiments)):
        experiment = experiments[name]
        rounds = {
            variant: each.trials or experiment.trials
            for variant, each in experiment.variants.items()
            if group_of(name, variant, experiment) == group
        }
        for number in range(1, max(rounds.values(), default=0) + 1):
            variants = [variant for variant, trials in rounds.items() if number <= trials]
            for variant in random.sample(variants, len(variants)):
                yield Slot(name, variant, number)


def remaining(planned: PlannedBoot, trials: Sequence[Trial]) -> tuple[Slot, ...]:
    """The slots of `planned` that are still to be run, given what was measured before.

    A round (one trial of each variant) counts when it was finished within one boot, since its
    trials are compared with one another: one that was cut short is run again as a whole.
    """
    taken: dict[tuple[str, int, int], set[str]] = {}
    for trial in trials:
        if trial.planned_boot == planned.number and trial.fault != "lost":
            place = (trial.experiment, trial.number, trial.boot)
            taken.setdefault(place, set()).add(trial.variant)
    finished = {
        round_
        for round_, variants in _rounds(planned.slots).items()
        for place, found in taken.items()
        if place[:2] == round_ and variants <= found
    }
    return tuple(slot for slot in planned.slots if (slot.experiment, slot.number) not in finished)


def _rounds(slots: Iterable[Slot]) -> dict[tuple[str, int], set[str]]:
    rounds: dict[tuple[str, int], set[str]] = {}
    for slot in slots:
        rounds.setdefault((slot.experiment, slot.number), set()).add(slot.variant)
    return rounds
