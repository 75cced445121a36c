"""WinVerbs asynchronous QP modify: the six rows of its table, on rxe and on a synthetic device.

The two columns are never mixed: `rxe` is real ibv_modify_qp calls on soft-RoCE, `delay` a sleep
that stands for a device, declared synthetic. Comparisons are of runs of the same round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from lab.progress import Progress
from lab.running import RunningLab
from tests.bench.seeds.common import (
    Criterion,
    Outcome,
    Trials,
    Variant,
    interleave,
    mechanism,
    spread,
)

TOPOLOGY = "winverbs-qp-modify.yaml"
RUNS = 8
CELLS = {
    "SS": ("sync", "sync"),
    "SW": ("sync", "workitem"),
    "AS": ("async", "sync"),
    "AW": ("async", "workitem"),
    "SH": ("sync", "hinted"),
    "AH": ("async", "hinted"),
}
# Not in the published table: the kernel's own worker threads, which can run verbs and no sleep.
KERNEL_CELLS = {"SK": ("sync", "io_wq"), "AK": ("async", "io_wq")}
# Column -> what a transition is, and queue pairs a process outside and in the loop.
COLUMNS: Mapping[str, tuple[Mapping[str, Any], int, int]] = {
    "rxe": ({"op": "rxe"}, 3000, 200),
    "delay:50, synthetic": ({"op": "delay", "delay_us": 50}, 1000, 200),
}
# cell, processes, create
SHAPES = (
    *((cell, 1, "outside") for cell in CELLS),
    *((cell, 2, "outside") for cell in ("SS", "SW", "AS", "AW")),
    *((cell, 4, "outside") for cell in ("SS", "AW")),
    *((cell, procs, "in_loop") for procs in (1, 2, 4) for cell in ("SS", "AW")),
)
KERNEL_SHAPES = (("SK", 1, "outside"), ("AK", 1, "outside"), ("AK", 2, "outside"))
# Student's t for 95 %, two-sided, by degrees of freedom.
T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# An effect that is smaller than this many spreads of the harness is not one.
SPREADS = 3


def name_of(column: str, cell: str, procs: int = 1, create: str = "outside") -> str:
    return f"{column}: {cell} {procs}p {create}"


def variants(column: str) -> list[Variant]:
    op, outside, in_loop = COLUMNS[column]
    return [
        mechanism(
            name_of(column, cell, procs, create),
            "verbs",
            {
                **op,
                "user": (CELLS | KERNEL_CELLS)[cell][0],
                "kernel": (CELLS | KERNEL_CELLS)[cell][1],
                "procs": procs,
                "create": create,
                "qps": in_loop if create == "in_loop" else max(outside // procs, outside // 2),
                "null_s": 0.1,
            },
        )
        for cell, procs, create in (*SHAPES, *(KERNEL_SHAPES if op["op"] == "rxe" else ()))
    ]


def collect(lab: RunningLab, *, runs: int | None, out: Path, progress: Progress) -> None:
    for column in COLUMNS:
        interleave(lab, variants(column), runs or RUNS, out=out, progress=progress)


def judge(trials: Trials) -> list[Criterion]:
    return [
        row
        for column in COLUMNS
        if trials.of(name_of(column, "SS"))
        for row in _rows(column, trials)
    ]


def quotients(over: Mapping[int, float], under: Mapping[int, float]) -> dict[int, float]:
    """Of the rounds that both have."""
    return {number: over[number] / under[number] for number in over if number in under}


class Ratios:
    """Ratios of two figures of the same round: geometric mean, and its 95 % interval.

    In logarithms, because a busy machine makes a run some factor slower: a ratio and its
    reciprocal then say the same, and no side gains by being the denominator.
    """

    def __init__(self, by_round: Mapping[int, float]) -> None:
        self.by_round = by_round
        logs = [math.log(ratio) for ratio in by_round.values()]
        middle = statistics.fmean(logs) if logs else float("nan")
        freedom = len(logs) - 1
        half = (
            T_95.get(freedom, 1.96) * statistics.stdev(logs) / len(logs) ** 0.5
            if freedom > 0
            else float("inf")
        )
        self.mean = math.exp(middle)
        self.low, self.high = math.exp(middle - half), math.exp(middle + half)

    def __str__(self) -> str:
        if len(self.by_round) < 2:
            return "nothing measured"
        return f"{self.mean:.3f} (95 % {self.low:.3f} .. {self.high:.3f}, n={len(self.by_round)})"

    def over(self, under: Ratios) -> Ratios:
        return Ratios(quotients(self.by_round, under.by_round))

    def at_least(self, floor: float) -> Outcome:
        if self.low >= floor:
            return "holds"
        return "does not hold" if self.high < floor else "cannot be resolved"

    def at_most(self, ceiling: float) -> Outcome:
        if self.high <= ceiling:
            return "holds"
        return "does not hold" if self.low > ceiling else "cannot be resolved"

    def within(self, low: float, high: float) -> Outcome:
        if low <= self.low and self.high <= high:
            return "holds"
        outside = self.high < low or self.low > high
        return "does not hold" if outside else "cannot be resolved"


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """All must hold."""
    for outcome in ("does not hold", "cannot be resolved"):
        if outcome in outcomes:
            return outcome
    return "holds"


class Column:
    """One column's trials: rates by round, and what the harness lets one resolve."""

    def __init__(self, column: str, trials: Trials) -> None:
        self._column = column
        self._trials = trials

    def figures(self, name: str, *shape: Any) -> list[float]:
        return self._trials.values(name_of(self._column, *shape), name)

    def rates(self, *shape: Any) -> dict[int, float]:
        """Round -> QPs/s of that shape."""
        done = self._trials.of(name_of(self._column, *shape))
        return {trial.number: trial.metrics["qps"] for trial in done}

    def ratio(self, over: Sequence[Any], under: Sequence[Any]) -> Ratios:
        return Ratios(quotients(self.rates(*over), self.rates(*under)))

    def unresolved(self, one: Sequence[Any], other: Sequence[Any]) -> str:
        """Why the two cannot be told apart by this harness; empty if they can."""
        effect_us = abs(self._us_a_step(one) - self._us_a_step(other))
        spread_us = max(self._harness_spread_us(shape) for shape in (one, other))
        if effect_us >= SPREADS * spread_us:
            return ""
        return (
            f"the effect, {effect_us:.1f} us a transition, is below {SPREADS} spreads of the "
            f"harness ({spread_us:.1f} us)"
        )

    def _us_a_step(self, shape: Sequence[Any]) -> float:
        rates = list(self.rates(*shape).values())
        return 1e6 / (4 * statistics.fmean(rates)) if rates else float("nan")

    def _harness_spread_us(self, shape: Sequence[Any]) -> float:
        """The median over trials: each trial has the spread of its own null runs."""
        done = self._trials.of(name_of(self._column, *shape))
        return statistics.median(trial.harness["spread_us"] for trial in done) if done else 0.0

    def harness(self, cell: str) -> str:
        done = self._trials.of(name_of(self._column, cell))
        return spread([trial.harness["cost_us"] for trial in done], 3)


def _rows(column: str, trials: Trials) -> list[Criterion]:
    seen = Column(column, trials)
    rows: list[Criterion] = []

    def row(
        number: str, must_hold: str, seed: str, measured: object, outcome: Outcome, why: str = ""
    ) -> None:
        rows.append(Criterion(f"{number} [{column}]", must_hold, seed, str(measured), outcome, why))

    def compared(
        number: str,
        must_hold: str,
        seed: str,
        over: Sequence[Any],
        under: Sequence[Any],
        judge: Callable[[Ratios], Outcome],
    ) -> None:
        """A row about an effect: not resolved where the harness could have made it."""
        ratio = seen.ratio(over, under)
        why = seen.unresolved(over, under)
        row(number, must_hold, seed, ratio, "cannot be resolved" if why else judge(ratio), why)

    compared(
        "1", "1p: Sync/Workitem below Sync/Sync", "-10.4 %", ("SW",), ("SS",),
        lambda ratio: ratio.at_most(1.0),
    )  # fmt: skip
    # An equality needs no effect: the harness rule does not apply to it.
    ratio = seen.ratio(("AS",), ("SS",))
    row("2, control", "1p: Async/Sync within 10 % of Sync/Sync", "-2.2 %", ratio,
        ratio.within(0.9, 1.1))  # fmt: skip
    compared(
        "3", "1p: Async/Workitem at least 1.3 of Sync/Sync", "2.13", ("AW",), ("SS",),
        lambda ratio: ratio.at_least(1.3),
    )  # fmt: skip
    scaling = {cell: seen.ratio((cell, 2), (cell, 1)) for cell in ("SS", "SW", "AS", "AW")}
    others = {cell: ratio for cell, ratio in scaling.items() if cell != "AW"}
    row("4a", "2p/1p: the three other cells at least 1.25", "1.46, 1.46, 1.45",
        _each(others), together([ratio.at_least(1.25) for ratio in others.values()]))  # fmt: skip
    least = [scaling["AW"].over(ratio) for ratio in others.values()]
    row("4b", "2p/1p: Async/Workitem scales least", "0.98", _each(scaling),
        together([ratio.at_most(1.0) for ratio in least]))  # fmt: skip
    in_loop = [
        seen.ratio(("AW", procs, "in_loop"), ("SS", procs, "in_loop")) for procs in (1, 2, 4)
    ]
    falls = [fewer.over(more) for fewer, more in pairwise(in_loop)]
    row("5", "create in loop: Async-Workitem over Sync-Sync falls over 1, 2, 4 processes",
        "1.46, 1.32, 1.02", ", ".join(map(str, in_loop)),
        together([ratio.at_least(1.0) for ratio in falls]))  # fmt: skip
    for user, hinted, cells in (("sync", "SH", ("SS", "SW")), ("async", "AH", ("AS", "AW"))):
        best = max(cells, key=lambda cell: statistics.fmean(seen.rates(cell).values()))
        ratio = seen.ratio((hinted,), (best,))
        row("6", f"1p, user={user}: hinted at least 0.97 of the better of {' and '.join(cells)}",
            "proposed only", f"{ratio} of {best}", ratio.at_least(0.97))  # fmt: skip
    rows += _evidence(column, seen, trials)
    return rows


def _evidence(column: str, seen: Column, trials: Trials) -> list[Criterion]:
    shapes = [name for name in {trial.variant for trial in trials.all} if name.startswith(column)]
    failures = [value for name in shapes for value in trials.values(name, "failures")]
    checked = sum(sum(trials.values(name, "checked_final_states")) for name in shapes)
    overlap = seen.figures("overlapped_share", "AW")
    apart = [
        value for cell in ("SS", "SW", "AS") for value in seen.figures("overlapped_share", cell)
    ]
    of_kernel = {
        "Sync/io-wq over Sync/Sync": seen.ratio(("SK",), ("SS",)),
        "Async/io-wq over Sync/Sync": seen.ratio(("AK",), ("SS",)),
        "Async/io-wq over Sync/io-wq": seen.ratio(("AK",), ("SK",)),
        "Async/io-wq 2p/1p": seen.ratio(("AK", 2), ("AK", 1)),
    }
    rows = [
        ("failures", "every transition succeeds and every final state is right", "",
         f"{sum(failures):g} failures, {checked:,.0f} final states checked by ibv_query_qp",
         "holds" if failures and not any(failures) else "does not hold", ""),
        ("overlap", "a second transition is under way in Async/Workitem, never in the others", "",
         f"share {spread(overlap, 3)}; others at most {max(apart, default=0):g}",
         "holds" if overlap and min(overlap) > 0.5 and not any(apart) else "does not hold", ""),
        ("QPs/s", "reported", "3363, 3012, 3289, 7168",
         "; ".join(f"{cell} {spread(seen.figures('qps', cell))}" for cell in CELLS),
         "reported", ""),
        ("us a null transition", "reported", "",
         "; ".join(f"{cell} {seen.harness(cell)}" for cell in CELLS), "reported",
         "what each cell costs without an operation: a work item is a hand-off between threads"),
        ("context switches a modify", "reported", "",
         "; ".join(
             f"{cell} {spread(seen.figures('switches_per_modify', cell), 3)}" for cell in CELLS),
         "reported", ""),
        ("4 processes on 2 vCPUs", "reported", "",
         "; ".join(f"{cell} 4p/1p {seen.ratio((cell, 4), (cell, 1))}" for cell in ("SS", "AW")),
         "reported", "twice as many processes as processors: they also wait for one another"),
        ("a work item of the kernel's own (io-wq), 1p", "reported", "0.90, 2.13, 2.38, 0.98",
         _each(of_kernel), "reported", "first in first out, and no thread of Python's in between"),
    ]  # fmt: skip
    if not seen.rates("AK"):
        rows.pop()
    return [Criterion(f"{name} [{column}]", *rest) for name, *rest in rows]  # type: ignore[arg-type]


def _each(ratios: Mapping[str, Ratios]) -> str:
    return "; ".join(f"{cell} {ratio}" for cell, ratio in ratios.items())
