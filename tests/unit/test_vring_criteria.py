"""The pass criteria of vioscsi's seed, on trials made up for the purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.topology.load import load
from tests.bench.seeds import vioscsi
from tests.bench.seeds.common import Criterion, Trial, Trials


def trial(variant: str, number: int = 1, **given: Any) -> Trial:
    """A clean trial of 4000 requests, but for what is given."""
    counters = {
        "requests": 4000, "stalls": 0, "lost_kicks": 0, "kicks_per_request": 0.1, "wrong": 0,
        "duplicate_ids": 0, "verified": 1, **given,
    }  # fmt: skip
    return Trial(
        variant,
        number,
        metrics={"stalled": float(counters["stalls"] > 0), "iops": 1000.0, "data_errors": 0.0},
        counters=counters,
        harness={"cost_us": 100.0},
        policy={"kick": variant.split()[0], "suppress": "event_idx"},
    )


def stalled(variant: str, number: int = 1, **given: Any) -> Trial:
    return trial(
        variant, number, stalls=1, lost_kicks=1, operations_to_first_stall=1500,
        requests_before_first_stall=3000, **given,
    )  # fmt: skip


def judged(*trials: Trial) -> dict[str, Criterion]:
    return {row.name: row for row in vioscsi.judge(Trials(trials))}


REGRESSED = [stalled("regressed", number) for number in range(10)]


def test_without_trials_only_the_model_is_known() -> None:
    rows = judged()
    assert rows.pop("L1 model").outcome == "holds"
    assert {row.outcome for row in rows.values()} <= {"cannot be resolved", "reported", "holds"}
    assert rows["1 regressed"].outcome == "cannot be resolved"


def test_stalls_in_half_of_ten_trials_hold() -> None:
    clean = [trial("regressed", number) for number in range(10)]
    assert judged(*REGRESSED[:5], *clean[:5])["1 regressed"].outcome == "holds"
    assert judged(*REGRESSED[:4], *clean[:6])["1 regressed"].outcome == "does not hold"
    assert judged(*REGRESSED[:9])["1 regressed"].outcome == "cannot be resolved"


def test_fixed_needs_ten_times_the_requests_and_no_stall() -> None:
    fixed = [trial("fixed", number, requests=31_000) for number in range(10)]
    row = judged(*REGRESSED, *fixed)["2 fixed"]
    assert row.outcome == "holds"
    assert "10.3 times the 30,000 of regressed" in row.measured
    assert judged(*REGRESSED, *fixed[:9])["2 fixed"].outcome == "cannot be resolved"
    assert judged(*REGRESSED, *fixed, stalled("fixed"))["2 fixed"].outcome == "does not hold"


def test_one_stall_of_a_control_fails_it() -> None:
    for name, variant in (
        ("3 one queue", "regressed, one queue"),
        ("4 flags", "regressed, flags"),
        ("control: pre684", "pre684"),
    ):
        assert judged(trial(variant))[name].outcome == "holds"
        assert judged(trial(variant), stalled(variant))[name].outcome == "does not hold"


def test_always_has_more_kicks() -> None:
    fixed = trial("fixed, short")
    assert judged(fixed, trial("always", kicks_per_request=1.0))["5 always"].outcome == "holds"
    assert judged(fixed, trial("always"))["5 always"].outcome == "does not hold"


def test_a_stall_that_heals_is_not_sticky() -> None:
    def reset(**given: Any) -> Trial:
        return stalled(
            "regressed, reset", submitted_while_stalled=192, healed_itself=0,
            healed_by_submission=0, kick_to_progress_ms=5.0, **given,
        )  # fmt: skip

    assert judged(reset())["6 sticky"].outcome == "holds"
    healed = stalled(
        "regressed, reset", submitted_while_stalled=9, healed_itself=1, healed_by_submission=0
    )
    assert judged(reset(), healed)["6 sticky"].outcome == "does not hold"


def test_ids_are_duplicated_only_unlocked() -> None:
    locked = trial("fixed, short")
    unlocked = trial("ids unlocked", duplicate_ids=7)
    assert judged(locked, unlocked)["9 ids"].outcome == "holds"
    assert judged(locked, trial("ids unlocked"))["9 ids"].outcome == "does not hold"


def test_a_slow_request_of_the_driver_is_a_stall() -> None:
    def driver(longest_us: float) -> Trial:
        return Trial("driver threads", 1, metrics={"latency_max": longest_us})

    name = "L3: the agent's engine on the guest's driver"
    assert judged(driver(200e3))[name].outcome == "holds"
    assert judged(driver(1.2e6))[name].outcome == "does not hold"


def test_the_topology_has_every_disk_that_is_asked_for() -> None:
    root = Path(__file__).parents[2]
    guests = load(root / "topologies" / vioscsi.TOPOLOGY).topology.guests
    disks = {disk for guest in guests.values() for disk in guest.disks}
    assert {*vioscsi.L3_DISKS, vioscsi.DISK} <= disks
