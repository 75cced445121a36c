"""Judging trials of the WinVerbs seed, and reading rping."""

from __future__ import annotations

from typing import Any

import pytest
from datapath_agent.listening import has_listener
from datapath_agent.protocol import Fault
from datapath_agent.workloads import rping
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.seeds import winverbs
from tests.bench.seeds.common import Criterion, Trial, Trials

# QPs/s of the published table, and of the one with creation in the loop.
SEED = {
    ("SS", 1, "outside"): 3363, ("SW", 1, "outside"): 3012,
    ("AS", 1, "outside"): 3289, ("AW", 1, "outside"): 7168,
    ("SS", 2, "outside"): 4902, ("SW", 2, "outside"): 4400,
    ("AS", 2, "outside"): 4764, ("AW", 2, "outside"): 7050,
    ("SS", 1, "in_loop"): 1801, ("AW", 1, "in_loop"): 2634,
    ("SS", 2, "in_loop"): 2705, ("AW", 2, "in_loop"): 3562,
    ("SS", 4, "in_loop"): 3869, ("AW", 4, "in_loop"): 3933,
    ("SH", 1, "outside"): 3363, ("AH", 1, "outside"): 7168,
}  # fmt: skip
RXE = "rxe"


def trials(
    rates: dict[tuple[str, int, str], float], *, noise: float = 0.01, **changed: Any
) -> Trials:
    """Eight rounds, each of which runs faster or slower as a whole."""
    made = []
    for number in range(1, 9):
        for (cell, procs, create), rate in rates.items():
            weather = 1 + noise * (number % 3) + 0.002 * ((number * 7 + len(cell + create)) % 5)
            told = {"overlapped_share": 0.99 if cell in ("AW", "AH") else 0.0}
            told |= {"checked_final_states": 100, "switches_per_modify": 1.0, **changed}
            made.append(
                Trial(
                    winverbs.name_of(RXE, cell, procs, create),
                    number,
                    metrics={"qps": rate * weather, "failures": changed.get("failures", 0)},
                    counters=told,
                    harness={"cost_us": 1.0, "spread_us": changed.get("spread_us", 0.1)},
                )
            )
    return Trials(made)


def judged(done: Trials) -> dict[str, Criterion]:
    return {row.name.partition(" [")[0]: row for row in winverbs.judge(done)}


def test_the_seeds_own_figures_meet_the_seeds_criteria() -> None:
    rows = winverbs.judge(trials(SEED))
    assert {row.outcome for row in rows} == {"holds", "reported"}
    assert len([row for row in rows if row.outcome == "holds"]) == 10


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ({("SW", 1, "outside"): 3500}, "1"),
        ({("AS", 1, "outside"): 2500}, "2, control"),
        ({("AW", 1, "outside"): 3400}, "3"),
        ({("AS", 2, "outside"): 3600}, "4a"),
        ({("AW", 2, "outside"): 14000}, "4b"),
        ({("AW", 4, "in_loop"): 6000}, "5"),
        ({("AH", 1, "outside"): 3363}, "6"),
    ],
)
def test_a_figure_that_breaks_the_pattern_breaks_its_row(
    changed: dict[tuple[str, int, str], float], row: str
) -> None:
    rows = judged(trials({**SEED, **changed}))
    assert rows[row].outcome == "does not hold"


def test_an_effect_within_three_spreads_of_the_harness_is_not_resolved() -> None:
    # Sync/Workitem costs 8.7 us a transition more than Sync/Sync.
    rows = judged(trials(SEED, spread_us=4.0))
    assert rows["1"].outcome == "cannot be resolved"
    assert "3 spreads of the harness" in rows["1"].why
    assert rows["3"].outcome == "holds"


def test_noise_makes_a_row_unresolved_not_true() -> None:
    noisy = [
        Trial(**{**trial.__dict__, "metrics": {**trial.metrics, "qps": trial.metrics["qps"] * up}})
        for trial in trials(SEED).all
        for up in [2.0 if (trial.number + trial.variant.count("S")) % 2 else 0.5]
    ]
    rows = {row.name.partition(" [")[0]: row for row in winverbs.judge(Trials(noisy))}
    assert rows["2, control"].outcome == "cannot be resolved"


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=9))
def test_a_ratio_and_its_reciprocal_say_the_same(ratios: list[float]) -> None:
    one = winverbs.Ratios(dict(enumerate(ratios)))
    other = winverbs.Ratios({number: 1 / ratio for number, ratio in enumerate(ratios)})
    assert other.mean == pytest.approx(1 / one.mean)
    assert other.low == pytest.approx(1 / one.high)
    assert one.low <= one.mean <= one.high or one.low == pytest.approx(one.high)


def test_a_wrong_final_state_is_shown() -> None:
    assert judged(trials(SEED, failures=1))["failures"].outcome == "does not hold"
    assert judged(trials(SEED, overlapped_share=0.0))["overlap"].outcome == "does not hold"


def test_columns_are_judged_apart() -> None:
    assert all("[rxe]" in row.name for row in winverbs.judge(trials(SEED)))
    columns = {shape.name.partition(":")[0] for each in winverbs.COLUMNS
               for shape in winverbs.variants(each)}  # fmt: skip
    assert columns == {"rxe", "delay"}
    assert winverbs.judge(Trials([])) == []


PINGS = "".join(f"ping data: rdma-ping-{number}: ABCDEF\n" for number in range(5))


def test_rping_s_pings_are_counted() -> None:
    assert rping.count(PINGS + "client DISCONNECT EVENT...\n", "", 5) == 5
    assert rping.count(PINGS, "", None) == 5


@pytest.mark.parametrize(
    ("stdout", "stderr", "expected", "kind"),
    [
        (PINGS, "data mismatch!\n", 5, "tool-failed"),
        (PINGS, "data mismatch!\n", None, "tool-failed"),
        (PINGS, "", 6, "bad-output"),
        ("", "", 1, "bad-output"),
    ],
)
def test_rping_that_did_not_do_it_all_is_no_success(
    stdout: str, stderr: str, expected: int | None, kind: str
) -> None:
    with pytest.raises(Fault) as caught:
        rping.count(stdout, stderr, expected)
    assert caught.value.kind == kind


@given(st.text(), st.text(), st.none() | st.integers(1, 9))
def test_anything_else_is_a_count_or_a_fault(
    stdout: str, stderr: str, expected: int | None
) -> None:
    try:
        assert rping.count(stdout, stderr, expected) >= 0
    except Fault as fault:
        assert fault.kind in ("tool-failed", "bad-output")


LISTENERS = """\
link rxe0/1 cm-idn 0 state LISTEN ps TCP pid 649 comm rping src-addr 10.64.0.1:7174 dst-addr 0.0.0.0:0
link rxe0/1 cm-idn 1 lqpn 17 qp-type RC state CONNECT ps TCP pid 650 comm rping src-addr 10.64.0.1:7175
"""  # noqa: E501


@pytest.mark.parametrize(
    ("port", "pid", "is_one"),
    [(7174, 649, True), (7174, 650, False), (174, 649, False), (7175, 650, False)],
)
def test_a_connection_manager_s_listener_is_found(port: int, pid: int, is_one: bool) -> None:
    assert has_listener(LISTENERS, port, pid) == is_one
