"""Judging: what becomes of each kind of gate, from trials made up for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.experiments.findings import Finding, Verdict
from lab.experiments.gates import judge
from lab.guest.agent_client import Metric
from lab.results.run_directory import Boot
from lab.results.trial import Trial
from lab.topology.experiment import Experiment

TODAY = date(2026, 12, 7)
PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE

Values = Sequence[Sequence[float]]

# Five boots of two trials each.
SLOW = [(100, 101), (103, 102), (98, 99), (101, 100), (100, 102)]
FAST = [(120, 122), (124, 121), (118, 119), (121, 120), (119, 123)]
NOISY = [(80, 125), (140, 110), (90, 160), (100, 70), (130, 150)]


def trials(
    variant: str,
    boots: Values,
    *,
    first_boot: int = 1,
    unit: str = "1/s",
    direction: str = "higher",
    metric: str = "rps",
    **fields: Any,
) -> list[Trial]:
    return [
        Trial(
            experiment="queue",
            variant=variant,
            boot=boot,
            planned_boot=boot,
            number=number,
            started="",
            elapsed_s=1.0,
            metrics=(Metric(metric, unit, direction, value),),  # type: ignore[arg-type]
            **fields,
        )
        for boot, values in enumerate(boots, first_boot)
        for number, value in enumerate(values, 1)
    ]


def failed(variant: str, boot: int, fault: str | None, error: str = "it stopped") -> Trial:
    made = Trial("queue", variant, boot, boot, 1, "", 1.0, error=error)
    return replace(made, fault=fault)  # type: ignore[arg-type]


def judged(
    gate: Mapping[str, Any],
    made: Sequence[Trial],
    boots: Sequence[Boot] = (),
    *,
    today: date = TODAY,
    **looks: int,
) -> Finding:
    experiment = Experiment.model_validate(
        {
            "workload": {"engine": "udp"},
            "variants": {"old": {}, "new": {}, "twice": {}, "other": {}},
            "gates": {"gate": {"metric": "rps", "variant": "new", **gate}},
        }
    )
    (finding,) = judge({"queue": experiment}, made, boots, today=today, **looks)
    return finding


def compared(gate: Mapping[str, Any], old: Values, new: Values, **fields: Any) -> Finding:
    made = [*trials("old", old, **fields), *trials("new", new, **fields)]
    return judged({"baseline": "old", **gate}, made)


# Effects


@pytest.mark.parametrize(
    ("gate", "old", "new", "verdict"),
    [
        ({"effect": "15%"}, SLOW, FAST, PASS),
        ({"effect": "0%"}, SLOW, FAST, PASS),
        ({"effect": "30%"}, SLOW, FAST, FAIL),
        ({"effect": "15%"}, FAST, SLOW, FAIL),
        ({"effect": "0%"}, SLOW, SLOW, FAIL),
        ({"effect": "15%", "direction": "lower"}, FAST, SLOW, PASS),
        ({"effect": "15%", "direction": "lower"}, SLOW, FAST, FAIL),
        ({"effect": "15%"}, SLOW, NOISY, INCONCLUSIVE),
        ({"effect": "20.2%"}, SLOW, FAST, INCONCLUSIVE),
        ({"effect": "-3%"}, SLOW, SLOW, PASS),
        ({"effect": "-3%"}, FAST, SLOW, FAIL),
        ({"effect": "-3%"}, SLOW, NOISY, INCONCLUSIVE),
    ],
)
def test_effect(gate: dict[str, Any], old: Values, new: Values, verdict: Verdict) -> None:
    assert compared(gate, old, new).verdict is verdict


def test_an_effect_comes_with_its_statistics() -> None:
    finding = compared({"effect": "15%", "reference": "+20 %"}, SLOW, FAST)
    assert finding.estimate == pytest.approx(0.2, abs=0.01)
    assert finding.low is not None and finding.high is not None
    assert 0.15 < finding.low < finding.estimate < finding.high < 0.25
    assert finding.detectable is not None and 0 < finding.detectable < 0.05
    assert len(finding.pairs) == 5
    assert (finding.kind, finding.unit, finding.confidence) == ("change", "1/s", 0.99)
    assert finding.baseline is not None and finding.baseline.boots == tuple(SLOW)
    assert finding.claim == "new rps at least 15 % above old"
    assert finding.reference == "+20 %"


def test_the_metric_says_which_direction_is_better() -> None:
    assert compared({"effect": "15%"}, FAST, SLOW, direction="lower").verdict is PASS


def test_a_counter_needs_a_direction() -> None:
    made = [
        replace(trial, metrics=(), counters={"rps": trial.metrics[0].value})
        for trial in [*trials("old", SLOW), *trials("new", FAST)]
    ]
    finding = judged({"baseline": "old", "effect": "15%"}, made)
    assert finding.verdict is INCONCLUSIVE
    assert "direction" in finding.why
    told = {"baseline": "old", "effect": "15%", "direction": "higher"}
    assert judged(told, made).verdict is PASS


def test_an_inconclusive_effect_says_how_many_boots_settle_it() -> None:
    wide = [(100, 130), (103, 128), (98, 120), (101, 150)]
    finding = compared({"effect": "10%"}, SLOW[:4], wide)
    assert finding.verdict is INCONCLUSIVE
    assert finding.more_boots is not None and 1 <= finding.more_boots < 20


@given(scale=st.floats(0.001, 1000))
def test_units_do_not_change_a_verdict(scale: float) -> None:
    def scaled(boots: Values) -> Values:
        return [[value * scale for value in boot] for boot in boots]

    finding = compared({"effect": "15%"}, scaled(SLOW), scaled(FAST))
    plain = compared({"effect": "15%"}, SLOW, FAST)
    assert finding.verdict is plain.verdict
    assert finding.estimate == pytest.approx(plain.estimate)


@given(boots=st.lists(st.tuples(st.floats(90, 110), st.floats(90, 110)), min_size=2, max_size=5))
def test_what_is_shown_higher_is_shown_lower_the_other_way(boots: list) -> None:
    old, new = [(one,) for one, _ in boots], [(other,) for _, other in boots]
    up = compared({"effect": "0%", "direction": "higher"}, old, new)
    down = compared({"effect": "0%", "direction": "lower"}, new, old)
    assert up.verdict is down.verdict


def test_boots_of_one_side_each_are_compared_by_their_means() -> None:
    apart = [*trials("old", SLOW), *trials("new", FAST, first_boot=6)]
    finding = judged({"baseline": "old", "effect": "15%"}, apart)
    assert finding.verdict is PASS
    assert finding.pairs == ()
    # What boots differ in does not cancel here.
    far = [(100,), (200,), (300,), (400,), (500,)]
    further = [(value * 1.2,) for (value,) in far]
    shared = compared({"effect": "15%"}, far, further)
    assert shared.verdict is PASS
    alone = [*trials("old", far), *trials("new", further, first_boot=6)]
    assert judged({"baseline": "old", "effect": "15%"}, alone).verdict is INCONCLUSIVE


def test_a_boot_of_one_side_only_is_left_out_and_named() -> None:
    made = [*trials("old", SLOW), *trials("new", FAST[:4])]
    finding = judged({"baseline": "old", "effect": "15%"}, made)
    assert len(finding.pairs) == 4
    assert "boots with trials of one side only are left out: 5" in finding.notes


def test_in_one_boot_the_trials_are_compared() -> None:
    old, new = [(100, 101, 99, 102, 100)], [(120, 122, 118, 121, 119)]
    finding = compared({"effect": "15%"}, old, new)
    assert finding.verdict is PASS
    assert len(finding.pairs) == 5
    assert any("one boot" in note for note in finding.notes)


def test_one_boot_does_not_tell_how_many_more_would_do() -> None:
    finding = compared({"effect": "15%"}, [(100, 101, 99)], [(120, 150, 118)])
    assert finding.verdict is INCONCLUSIVE
    assert finding.more_boots is None
    assert "more boots are needed" in finding.why


def test_one_trial_shows_nothing() -> None:
    finding = compared({"effect": "15%"}, [(100,)], [(120,)])
    assert finding.verdict is INCONCLUSIVE
    assert "no spread" in finding.why
    assert finding.estimate == pytest.approx(0.2)


def test_one_boot_a_side_shows_nothing_however_many_trials() -> None:
    made = [*trials("old", [(100,) * 9]), *trials("new", [(120,) * 9], first_boot=2)]
    assert judged({"baseline": "old", "effect": "15%"}, made).verdict is INCONCLUSIVE


def test_no_change_is_relative_to_zero() -> None:
    finding = compared({"effect": "15%"}, [(0,), (0,)], [(1,), (2,)])
    assert finding.verdict is INCONCLUSIVE
    assert "no relative change" in finding.why


def test_ranges_must_be_apart_where_the_gate_says_so() -> None:
    assert compared({"effect": "15%", "separated": True}, SLOW, FAST).verdict is PASS
    touching = [*FAST[:4], (150, 102)]
    assert compared({"effect": "10%"}, SLOW, touching).verdict is not FAIL
    finding = compared({"effect": "10%", "separated": True}, SLOW, touching)
    assert finding.verdict is INCONCLUSIVE
    assert "overlap" in finding.why


def test_ranges_apart_may_show_what_few_boots_cannot() -> None:
    old, new = (
        [(100, 101, 99, 98), (103, 102, 99, 100)],
        [(120, 190, 120, 150), (300, 500, 450, 400)],
    )
    assert compared({"effect": "15%"}, old, new).verdict is INCONCLUSIVE
    finding = compared({"effect": "15%", "separated": True}, old, new)
    assert finding.verdict is PASS
    assert "exact p = " in finding.why
    # One value a boot: the labels could have fallen so by chance.
    few = compared({"effect": "15%", "separated": True}, [(100,), (103,)], [(120,), (300,)])
    assert few.verdict is INCONCLUSIVE


def test_pairs_of_variants_compare_scaling() -> None:
    def made(old_scaling: float) -> list[Trial]:
        return [
            *trials("old", SLOW),
            *trials("other", [[old_scaling * value for value in boot] for boot in FAST]),
            *trials("new", SLOW),
            *trials("twice", [[1.9 * value for value in boot] for boot in SLOW]),
        ]

    gate = {"variant": ["twice", "new"], "baseline": ["other", "old"], "effect": "20%"}
    finding = judged(gate, made(1.0))
    assert finding.verdict is PASS
    assert finding.estimate == pytest.approx(1.9 / 1.2 - 1, abs=0.02)
    assert finding.variant is not None and finding.variant.name == "twice / new"
    assert finding.unit == ""
    assert judged(gate, made(1.7)).verdict is FAIL


def test_a_pair_of_variants_with_boots_of_their_own_goes_by_planned_boots() -> None:
    doubled = [[2 * value for value in boot] for boot in SLOW]
    elsewhere = [replace(trial, boot=trial.boot + 5) for trial in trials("twice", doubled)]
    gate = {"variant": ["twice", "new"], "baseline": ["other", "old"], "report": True}
    made = [*trials("new", SLOW), *elsewhere, *trials("old", SLOW), *trials("other", SLOW)]
    finding = judged(gate, made)
    assert finding.estimate == pytest.approx(1.0)
    assert finding.variant is not None and len(finding.variant.boots) == 5


def test_an_effect_within_the_harness_own_scatter_is_not_claimed() -> None:
    def with_spread(spread_us: float, runs: int = 3) -> Finding:
        harness = {"cost_us": 30.0, "spread_us": spread_us, "runs": runs, "what": "a null run"}
        return compared(
            {"effect": "10%"}, FAST, SLOW, unit="us", direction="lower", harness=harness
        )

    assert with_spread(1.0).verdict is PASS
    assert with_spread(20.0, runs=0).verdict is PASS
    finding = with_spread(20.0)
    assert finding.verdict is INCONCLUSIVE
    assert "harness" in finding.why


# No effects


@pytest.mark.parametrize(
    ("within", "new", "verdict"),
    [
        ("5%", SLOW, PASS),
        ("5%", FAST, FAIL),
        ("19.8%", FAST, INCONCLUSIVE),
        ("30%", FAST, PASS),
        ("5%", [(95,), (97,), (93,), (98,), (95,)], INCONCLUSIVE),
        ("5%", [(85,), (87,), (83,), (88,), (85,)], FAIL),
    ],
)
def test_within(within: str, new: Values, verdict: Verdict) -> None:
    assert compared({"within": within}, SLOW, new).verdict is verdict


def test_boots_to_settle_a_wide_margin_are_those_of_its_upper_end() -> None:
    """No change is below -100 %, so that -150 % needs no boots to be left out."""
    new = [(210,), (260,), (190,)]
    finding = compared({"within": "150%"}, SLOW[:3], new)
    assert finding.verdict is INCONCLUSIVE
    assert finding.more_boots is not None and finding.more_boots >= 1


def test_a_control_says_whether_it_shows_the_effect() -> None:
    gate = {"within": "5%", "control": True}
    calm, shown = compared(gate, SLOW, SLOW), compared(gate, SLOW, FAST)
    assert calm.is_control and "does not show the effect" in calm.why
    assert shown.verdict is FAIL and "the control shows the effect" in shown.why


def test_every_kind_of_control_is_told_of_in_the_same_words() -> None:
    gate = {"rate": "== 0", "control": True}
    assert "does not show the effect" in judged(gate, trials("new", [(0, 0)])).why
    assert "the control shows the effect" in judged(gate, trials("new", [(0, 1)])).why


def test_noise_is_no_control() -> None:
    assert compared({"within": "5%", "control": True}, SLOW, NOISY).verdict is INCONCLUSIVE


# Shares


def shares(*values: Values) -> list[Trial]:
    return [
        trial
        for variant, each in zip(("new", "old"), values, strict=False)
        for trial in trials(variant, each)
    ]


@pytest.mark.parametrize(
    ("bound", "stalled", "verdict"),
    [
        (">= 0.5", [(1, 1, 0), (1, 0, 7)], PASS),
        (">= 0.5", [(1, 0, 0), (1, 0, 0)], INCONCLUSIVE),
        (">= 0.5", [(0,) * 10, (0,) * 10], FAIL),
        ("<= 0.5", [(1,) * 10, (1,) * 10], FAIL),
        ("<= 0.5", [(0, 1, 0)], PASS),
        ("== 0", [(0,) * 10], PASS),
        ("== 0", [(0,) * 9 + (1,)], FAIL),
        ("== 1", [(1, 2), (3, 4)], PASS),
        ("== 1", [(1, 2), (3, 0)], FAIL),
    ],
)
def test_rate(bound: str, stalled: Values, verdict: Verdict) -> None:
    finding = judged({"rate": bound}, trials("new", stalled))
    assert finding.verdict is verdict
    assert finding.kind == "rate"


def test_a_rate_comes_with_its_exact_interval_and_what_was_detectable() -> None:
    finding = judged({"rate": "== 0"}, trials("new", [(0,) * 10]))
    assert (finding.estimate, finding.low) == (0, 0)
    assert finding.high == pytest.approx(0.411, abs=0.001)
    assert finding.detectable == pytest.approx(0.369, abs=0.001)


def test_an_inconclusive_rate_says_how_many_boots_settle_it() -> None:
    finding = judged({"rate": ">= 0.9"}, trials("new", [(1, 0), (1, 1), (1, 0)]))
    assert finding.verdict is INCONCLUSIVE
    assert finding.more_boots is not None and finding.more_boots > 1


# Figures of one side


@pytest.mark.parametrize(
    ("bound", "boots", "verdict"),
    [
        (">= 95", SLOW, PASS),
        (">= 110", SLOW, FAIL),
        (">= 100.5", SLOW, INCONCLUSIVE),
        ("<= 110", SLOW, PASS),
        ("== 2", [(2, 2), (1, 3)], PASS),
        ("== 2", [(2, 2), (2, 3)], FAIL),
        (">= 1", [(2,)], INCONCLUSIVE),
        (">= 1", [(2, 2.1, 2.2, 2.1)], PASS),
    ],
)
def test_value(bound: str, boots: Values, verdict: Verdict) -> None:
    finding = judged({"value": bound}, trials("new", boots))
    assert finding.verdict is verdict
    assert finding.kind == "value"


def test_each_trial_counts() -> None:
    assert judged({"each": ">= 98"}, trials("new", SLOW)).verdict is PASS
    finding = judged({"each": ">= 99"}, trials("new", SLOW))
    assert finding.verdict is FAIL
    assert "98 1/s in trial 1 of boot 3" in finding.why


# Proof


def test_a_fix_is_proven_where_the_check_fails_before_it() -> None:
    gate = {"rate": "== 0", "fails_on": "old"}
    finding = judged(gate, shares([(0,) * 5], [(1,) * 5]))
    assert finding.verdict is PASS
    assert finding.claim.endswith("fails on old")


def test_a_check_that_never_failed_is_an_unproven_test() -> None:
    gate = {"rate": "== 0", "fails_on": "old"}
    finding = judged(gate, shares([(0,) * 5], [(0,) * 5]))
    assert finding.verdict is INCONCLUSIVE
    assert finding.why.startswith("unproven test: the check never failed on old")
    missing = judged(gate, shares([(0,) * 5]))
    assert missing.verdict is INCONCLUSIVE and "unproven test" in missing.why


def test_a_check_that_fails_on_the_fix_fails() -> None:
    gate = {"rate": "== 0", "fails_on": "old"}
    assert judged(gate, shares([(0, 1)], [(1, 1)])).verdict is FAIL


def test_a_rare_failure_takes_many_trials_to_be_fixed() -> None:
    gate = {"rate": "== 0", "fails_on": "old"}
    old = [(1, 0, 0, 0), (0, 1, 0, 0)]
    finding = judged(gate, shares([(0,) * 4, (0,) * 4], old))
    assert finding.verdict is INCONCLUSIVE
    # 0.75^17 is the first below 0.01; four trials a boot.
    assert "17 trials" in finding.why and finding.more_boots == 3
    assert judged(gate, shares([(0,) * 9, (0,) * 8], old)).verdict is PASS


def test_a_longer_trial_without_failure_counts_for_its_operations() -> None:
    """As the SendSRB gates do: one long trial of the fix, two short ones of the regression."""
    gate = {
        "rate": "== 0",
        "fails_on": "old",
        "at_least": {"metric": "operations", "times": 1.5, "of": "old"},
    }

    def finding(operations: float) -> Finding:
        return judged(
            gate,
            [
                *trials("new", [(0,), (0,)], counters={"operations": operations}),
                *trials("old", [(1, 0), (0, 1)], counters={"operations": 100}),
            ],
        )

    # Half of four trials failed: seven without failure are no luck, of a hundred operations each.
    assert finding(360).verdict is PASS
    assert finding(300).verdict is INCONCLUSIVE
    assert "luck" in finding(300).why
    assert "needed" in finding(150).why
    # Operations of another variant tell nothing of how often the old one was tried.
    other = {**gate, "at_least": {"metric": "operations", "times": 1, "of": "other"}}
    made = [
        *trials("new", [(0,), (0,)], counters={"operations": 900}),
        *trials("other", [(0,), (0,)], counters={"operations": 9}),
        *trials("old", [(1, 0), (0, 1)], counters={"operations": 100}),
    ]
    assert "luck" in judged(other, made).why


def test_a_comparison_fails_on_the_old_variant() -> None:
    made = [*trials("old", SLOW), *trials("new", FAST), *trials("other", SLOW)]
    gate = {"baseline": "old", "effect": "15%", "fails_on": "other"}
    assert judged(gate, made).verdict is PASS
    faster = [*made[:20], *trials("other", FAST)]
    assert judged(gate, faster).verdict is INCONCLUSIVE


def test_a_pass_needs_its_operations() -> None:
    gate = {"rate": "== 0", "at_least": {"metric": "operations", "times": 10, "of": "old"}}

    def finding(new: float, old: float) -> Finding:
        return judged(
            gate,
            [
                *trials("new", [(0, 0)], counters={"operations": new}),
                *trials("old", [(1, 1)], counters={"operations": old}),
            ],
        )

    assert finding(1000, 100).verdict is PASS
    short = finding(999, 100)
    assert short.verdict is INCONCLUSIVE
    assert "10 times the operations of old" in short.why
    assert finding(1000, 0).verdict is INCONCLUSIVE


# Known issues

ISSUE = {"reason": "stalls under load", "link": "#7", "expires": "2026-12-07"}


@pytest.mark.parametrize(
    ("value", "today", "verdict", "why"),
    [
        (1, date(2026, 12, 7), Verdict.KNOWN, "known issue until 2026-12-07"),
        (1, date(2026, 12, 8), FAIL, "expired"),
        (0, date(2026, 12, 7), FAIL, "no longer fails: remove it"),
    ],
)
def test_known_issue(value: float, today: date, verdict: Verdict, why: str) -> None:
    made = trials("new", [(value, value)])
    finding = judged({"rate": "== 0", "known_issue": ISSUE}, made, today=today)
    assert finding.verdict is verdict
    assert why in finding.why and "#7" in finding.why


# What was not measured


def test_refused_trials_measure_nothing() -> None:
    finding = judged({"rate": "== 0"}, [failed("new", 1, "refused", "no such policy")])
    assert finding.verdict is Verdict.NOTHING_MEASURED
    assert "no such policy" in finding.why


def test_no_trials_measure_nothing() -> None:
    assert judged({"rate": "== 0"}, trials("old", SLOW)).verdict is Verdict.NOTHING_MEASURED


def test_a_lost_guest_is_a_broken_lab() -> None:
    finding = judged({"rate": "== 0"}, [failed("new", 1, "lost", "the guest went")])
    assert finding.verdict is Verdict.BROKEN_LAB
    assert "the guest went" in finding.why


def test_boots_that_broke_before_a_trial_are_a_broken_lab() -> None:
    finding = judged({"rate": "== 0"}, [], [Boot(1, 1, "", "", error="no ssh in 90 s")])
    assert finding.verdict is Verdict.BROKEN_LAB
    assert "no ssh in 90 s" in finding.why


def test_a_metric_that_is_not_measured_is_named_with_those_that_are() -> None:
    finding = judged({"metric": "speed", "rate": "== 0"}, trials("new", SLOW, counters={"hops": 1}))
    assert finding.verdict is Verdict.NOTHING_MEASURED
    assert "speed" in finding.why and "rps" in finding.why and "hops" in finding.why


def test_figures_that_are_no_numbers_are_left_out_and_named() -> None:
    finding = judged({"each": ">= 1"}, trials("new", [(2, float("nan"), 2)]))
    assert finding.verdict is PASS
    assert "new: 1 trial without `rps`" in finding.notes


def test_what_went_wrong_is_in_the_notes() -> None:
    made = [*trials("new", SLOW), failed("new", 1, "lost", "the guest went\nand more")]
    boots = [
        Boot(1, 1, "", "", warnings=("the host was busy",)),
        Boot(2, 2, "", "", warnings=("the host was busy",), error="a guest was lost"),
        Boot(9, 9, "queue/other", "", error="elsewhere"),
    ]
    notes = judged({"each": ">= 1"}, made, boots).notes
    assert "new, trial 1 of boot 1 lost: the guest went" in notes
    assert "boots 1, 2: the host was busy" in notes
    assert "boot 2: a guest was lost" in notes
    assert not any("elsewhere" in note for note in notes)


def test_other_experiments_trials_are_not_counted() -> None:
    made = [replace(trial, experiment="elsewhere") for trial in trials("new", SLOW)]
    assert judged({"each": ">= 1"}, made).verdict is Verdict.NOTHING_MEASURED


# Whatever is measured

figure = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, -1.0, 1e-50, 1e50, float("nan"), float("inf")]),
    st.floats(1e-9, 1e6),
)
some_boots = st.lists(st.lists(figure, min_size=1, max_size=4), max_size=4)
gates = st.sampled_from(
    [
        {"baseline": "old", "effect": "15%"},
        {"baseline": "old", "effect": "-3%", "direction": "lower"},
        {"baseline": "old", "effect": "0%", "separated": True},
        {"baseline": "old", "within": "10%"},
        {"baseline": "old", "within": "200%", "control": True},
        {"baseline": "old", "report": True},
        {"variant": ["new", "twice"], "baseline": ["old", "other"], "effect": "5%"},
        {"report": True},
        {"rate": ">= 0.5"},
        {"rate": "== 0", "fails_on": "old"},
        {"rate": "== 1", "at_least": {"metric": "rps", "times": 2, "of": "old"}},
        {"value": ">= 1"},
        {"value": "== 0", "fails_on": "old"},
        {"each": "<= 1", "fails_on": "old", "known_issue": ISSUE},
    ]
)


@pytest.mark.filterwarnings("error")
@given(gate=gates, new=some_boots, old=some_boots, shift=st.integers(1, 4))
def test_whatever_is_measured_is_judged(
    gate: dict[str, Any], new: Values, old: Values, shift: int
) -> None:
    made = [
        *trials("new", new),
        *trials("old", old, first_boot=shift),
        *trials("other", new, first_boot=shift),
        *trials("twice", old),
    ]
    finding = judged(gate, made)
    assert finding.why
    if finding.low is not None and finding.high is not None and finding.estimate is not None:
        assert finding.low <= finding.estimate <= finding.high
    if finding.more_boots is not None:
        assert finding.verdict is INCONCLUSIVE
        assert finding.more_boots > 0


# Reports and looks


def test_a_report_claims_nothing() -> None:
    change = compared({"report": True}, SLOW, FAST)
    assert (change.verdict, change.kind) == (Verdict.REPORTED, "change")
    assert change.estimate == pytest.approx(0.2, abs=0.01)
    value = judged({"report": True}, trials("new", SLOW))
    assert (value.verdict, value.kind) == (Verdict.REPORTED, "value")
    assert value.estimate == pytest.approx(100.6)


def test_gates_raise_no_more_false_alarms_than_alpha() -> None:
    """Five boots, two trials a side of the same thing: neither a gain nor a loss is shown."""
    random = np.random.default_rng(21)
    alarms = {"0%": 0, "5%": 0}
    comparisons = 500
    for _ in range(comparisons):
        boots = 100 * np.exp(random.normal(0, 0.02, (5, 1)))
        old, new = boots * np.exp(random.normal(0, 0.01, (2, 5, 2)))
        for effect in alarms:
            alarms[effect] += compared({"effect": effect}, old, new).verdict is PASS
    assert alarms["0%"] <= 0.015 * comparisons
    assert alarms["5%"] == 0


def test_looks_are_judged_by_the_alpha_they_are_allowed() -> None:
    made = [*trials("old", SLOW[:3]), *trials("new", FAST[:3])]
    gate = {"baseline": "old", "effect": "15%"}
    assert judged(gate, made).verdict is PASS
    look = judged(gate, made, look=9, looks=9)
    assert look.confidence > 0.999
    assert look.low is not None and look.low < (judged(gate, made).low or 0)


def test_findings_come_in_the_order_of_the_gates() -> None:
    gates = {name: {"metric": "rps", "variant": "new", "each": ">= 1"} for name in ("b", "a", "c")}
    experiment = Experiment.model_validate(
        {"workload": {"engine": "udp"}, "variants": {"new": {}}, "gates": gates}
    )
    found = judge({"queue": experiment}, trials("new", SLOW), (), today=TODAY)
    assert [finding.gate for finding in found] == ["b", "a", "c"]
    assert {finding.experiment for finding in found} == {"queue"}
