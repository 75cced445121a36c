"""Which trial is run in which boot, and what a killed run still lacks: without guests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.experiments.design import (
    UNPATCHED,
    PlannedBoot,
    effective,
    plan,
    remaining,
)
from lab.experiments.parameters import parameters_of
from lab.results.trial import Trial
from lab.topology.experiment import Experiment
from lab.topology.variants import patched


def experiment(**changes: object) -> Experiment:
    document = {
        "workload": {"engine": "udp", "connections": "4", "runtime_s": "2.5"},
        "variants": {"a": {"preset": "main"}, "b": {"preset": "latest", "connections": "8"}},
        "trials": 3,
        "boots": 4,
        "gates": {"g": {"metric": "rps", "variant": "a", "report": True}},
        **changes,
    }
    return Experiment.model_validate(document)


def taken(planned: PlannedBoot, boot: int, count: int) -> list[Trial]:
    return [
        Trial(slot.experiment, slot.variant, boot, planned.number, slot.number, "", 1.0)
        for slot in planned.slots[:count]
    ]


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 6))
def test_every_round_of_a_boot_has_each_variant_once(seed: int, trials: int, boots: int) -> None:
    planned = plan({"e": experiment(trials=trials, boots=boots)}, seed)
    assert [each.number for each in planned] == list(range(1, boots + 1))
    for boot in planned:
        rounds = [boot.slots[start : start + 2] for start in range(0, len(boot.slots), 2)]
        assert [{slot.variant for slot in each} for each in rounds] == [{"a", "b"}] * trials
        assert [each[0].number for each in rounds] == list(range(1, trials + 1))


def test_the_order_follows_from_the_seed_alone() -> None:
    experiments = {"e": experiment(trials=20), "f": experiment()}
    assert plan(experiments, 7) == plan(experiments, 7)
    assert plan(experiments, 7) != plan(experiments, 8)
    first, second = plan(experiments, 7)[:2]
    assert [slot.variant for slot in first.slots] != [slot.variant for slot in second.slots]


def test_variants_that_change_guests_alternate_boots() -> None:
    patch = {"guests": {"client": {"vcpus": 4}}}
    variants = {"a": {}, "b": {"topology": patch}}
    planned = plan({"e": experiment(variants=variants, boots=4)}, 1)
    assert [(each.number, each.group) for each in planned] == [
        (1, UNPATCHED), (1, "e/b"), (2, "e/b"), (2, UNPATCHED),
        (3, UNPATCHED), (3, "e/b"), (4, "e/b"), (4, UNPATCHED),
    ]  # fmt: skip
    assert {slot.variant for each in planned if each.group == "e/b" for slot in each.slots} == {"b"}


def test_an_experiment_of_fewer_boots_takes_part_in_the_first_ones() -> None:
    planned = plan({"e": experiment(boots=1), "f": experiment(boots=2)}, 1)
    assert [{slot.experiment for slot in each.slots} for each in planned] == [{"e", "f"}, {"f"}]


def test_nothing_is_left_of_a_boot_that_was_finished() -> None:
    (planned,) = plan({"e": experiment(boots=1)}, 1)
    assert remaining(planned, []) == planned.slots
    assert remaining(planned, taken(planned, 1, 6)) == ()


@pytest.mark.parametrize("count", range(6))
def test_a_round_that_was_cut_short_is_run_again_as_a_whole(count: int) -> None:
    (planned,) = plan({"e": experiment(boots=1)}, 1)
    before = taken(planned, 1, count)
    left = remaining(planned, before)
    assert left == planned.slots[count - count % 2 :]
    again = [replace(each, boot=2) for each in taken(PlannedBoot(1, "", left), 2, len(left))]
    assert remaining(planned, before + again) == ()


def test_a_trial_whose_guest_was_lost_counts_for_nothing() -> None:
    (planned,) = plan({"e": experiment(boots=1)}, 1)
    trials = taken(planned, 1, 6)
    trials[-1] = replace(trials[-1], error="gone", fault="lost")
    assert {slot.number for slot in remaining(planned, trials)} == {3}
    trials[-1] = replace(trials[-1], error="refused", fault="refused")
    assert remaining(planned, trials) == ()


def test_parameters_have_the_agents_types() -> None:
    found = experiment()
    assert parameters_of(found, "a") == {"connections": 4, "runtime_s": 2.5, "preset": "main"}
    assert parameters_of(found, "b")["connections"] == 8


def test_a_quick_run_replaces_what_it_says() -> None:
    quick = {
        "trials": 1, "boots": 2, "workload": {"runtime_s": "1"},
        "variants": {"b": {"connections": "2"}},
    }  # fmt: skip
    whole = {"e": experiment(quick=quick), "f": experiment(quick={"skip": True})}
    assert effective(whole, "full") == whole
    assert list(effective(whole, "quick")) == ["e"]
    found = effective(whole, "quick")["e"]
    assert (found.trials, found.boots) == (1, 2)
    assert parameters_of(found, "a")["runtime_s"] == 1
    assert parameters_of(found, "b") == {"connections": 2, "runtime_s": 1, "preset": "latest"}


def test_a_patch_merges_mappings_and_removes_with_null() -> None:
    before = {"guests": {"client": {"vcpus": "1", "rdma": {"rxe0": {}}}}, "name": "n"}
    patch = {"guests": {"client": {"vcpus": "4", "rdma": None}}}
    assert patched(before, patch) == {"guests": {"client": {"vcpus": "4"}}, "name": "n"}
    assert before["guests"] == {"client": {"vcpus": "1", "rdma": {"rxe0": {}}}}
