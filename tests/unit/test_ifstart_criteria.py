"""What the criteria of hn's seed make of trials: both ways, and neither."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.seeds import hn
from tests.bench.seeds.common import Criterion, Trial, Trials

BEFORE = {
    "throughput": 0.30, "lowest_to_highest": 0.4, "of_line": 0.6, "variation": 0.3,
    "low_bins": 0.9, "small_start_p99": 9000.0, "small_start_p50": 90.0,
}  # fmt: skip
AFTER = {
    "throughput": 0.45, "lowest_to_highest": 0.95, "of_line": 0.9, "variation": 0.02,
    "low_bins": 0.0, "small_start_p99": 90.0, "small_start_p50": 20.0,
}  # fmt: skip
ANY_SIZE = {**AFTER, "small_start_p99": 4000.0}
COUNTED_BEFORE = {
    "task_runs": 0, "direct": 900, "by_task": 0, "deferred_big": 0, "direct_share": 0.9,
}  # fmt: skip
COUNTED_AFTER = {
    "task_runs": 90, "direct": 10, "by_task": 900, "deferred_big": 50, "direct_share": 0.01,
}  # fmt: skip
ORDERED = {"order_violations": 0, "received_frames": 1000, "vcpus": 2}


def trials(changed: dict[str, dict[str, float]] | None = None) -> Trials:
    """Three of each variant, as the published change would have them, but for `changed`."""
    made = []
    for variant in (*hn.VARIANTS, *hn.REPORTED):
        preset = variant.name.split(",")[0]
        metrics = BEFORE if preset == "before" else AFTER
        if variant.name == "after, any size":
            metrics = ANY_SIZE
        if variant.name == "after, alone":
            metrics = BEFORE
        counted = COUNTED_BEFORE if preset == "before" else COUNTED_AFTER
        given = (changed or {}).get(variant.name, {})
        for number in (1, 2, 3):
            told: dict[str, Any] = {**metrics, **counted, **ORDERED, **given}
            made.append(
                Trial(
                    variant.name,
                    number,
                    metrics={
                        name: told[name] * (1 + number / 1000) if name != "of_line" else told[name]
                        for name in BEFORE
                    },
                    counters={name: told[name] for name in {*counted, *ORDERED}},
                    harness={"cost_us": 70.0, "spread_us": told.get("spread_us", 5.0)},
                    parameters={"bulk_bytes": 65536, "line_rate_mbps": 500},
                )
            )
    return Trials(made)


def outcome(told: Trials, name: str) -> Criterion:
    return next(each for each in hn.judge(told) if each.name.startswith(name))


def test_the_published_effect_holds_in_every_row() -> None:
    judged = hn.judge(trials())
    assert {each.outcome for each in judged} == {"holds", "reported"}
    assert sum(each.outcome == "holds" for each in judged) == 10


@pytest.mark.parametrize(
    ("row", "changed", "outcome_then"),
    [
        ("counters", {"before": {"task_runs": 3}}, "does not hold"),
        ("counters", {"after": {"deferred_big": 0}}, "does not hold"),
        ("1: mean, 4", {"after": {"throughput": 0.31}}, "does not hold"),
        ("1: mean, 4", {"after": {"throughput": 0.30}}, "cannot be resolved"),
        ("1: mean, 8", {"after, 8 senders": {"throughput": 0.2}}, "does not hold"),
        ("1: mean, 4", {"before": {"spread_us": 900.0}}, "cannot be resolved"),
        ("2", {"before": {"lowest_to_highest": 0.95}}, "does not hold"),
        ("2", {"after": {"lowest_to_highest": 0.8}}, "does not hold"),
        ("3", {"after": {"of_line": 0.8}}, "does not hold"),
        ("4", {"after": {"small_start_p99": 2000.0}}, "does not hold"),
        ("5", {"after, no TSO": {"throughput": 0.2}}, "does not hold"),
        ("6", {"after, any size": {"small_start_p99": 90.0}}, "cannot be resolved"),
        ("6", {"after, any size": {"small_start_p99": 9.0}}, "does not hold"),
        ("9", {"later": {"order_violations": 1}}, "does not hold"),
        ("control", {"after, alone": {"throughput": 0.45}}, "does not hold"),
    ],
)
def test_a_row_can_fail(row: str, changed: dict[str, dict[str, float]], outcome_then: str) -> None:
    assert outcome(trials(changed), row).outcome == outcome_then


def test_a_trial_that_failed_is_no_order_kept() -> None:
    told = trials()
    told.all.append(Trial("before", 9, error="the guest is gone"))
    assert outcome(told, "9").outcome == "does not hold"


def test_nothing_measured_is_nothing_that_holds() -> None:
    judged = hn.judge(Trials([]))
    assert "holds" not in [each.outcome for each in judged]
