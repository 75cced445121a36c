"""Bulk transmit from one guest to the other: one sender of the mechanism, beside iperf3's.

Nothing but that sender is there: no small frames, and nobody else who wants the driver's lock.
Both figures are what the receiving end got, after slow start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.deadline import Deadline
from lab.running import RunningLab
from lab.workload import run_workload
from tests.bench.speed.common import Measure, Row

FLOOR = 0.9
RUNTIME_S = 5.0
SLOW_START_S = 1
ALONE = {"bulk_senders": 1, "small_senders": 0, "control_every_ms": 0}


def _gbps(workload: str, given: Mapping[str, Any]) -> Measure:
    def measure(lab: RunningLab, deadline: Deadline) -> float:
        result = run_workload(lab, workload, {"runtime_s": RUNTIME_S, **given}, deadline=deadline)
        return result["throughput"].value

    return measure


def _row(preset: str, what: str) -> Row:
    ours = _gbps("ifstart", {"preset": preset, "warmup_s": float(SLOW_START_S), **ALONE})
    theirs = _gbps("iperf3", {"omit_s": SLOW_START_S})
    return Row(f"bulk transmit, {what}", "Gbit/s", FLOOR, ours, theirs)


ROWS = [
    _row("before", "sent by its caller (`before`)"),
    _row("after", "sent by the taskqueue (`after`)"),
]
