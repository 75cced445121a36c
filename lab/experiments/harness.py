"""What the measuring itself can feign: an effect within its own scatter is not claimed."""

from __future__ import annotations

from collections.abc import Sequence

from lab.results.trial import Trial

# Null runs are few (three): their range is no standard deviation, so three times it.
TIMES_SPREAD = 3
_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def least_effect(unit: str, trials: Sequence[Trial]) -> float | None:
    """The smallest difference of a time that can be claimed, in `unit`; None for no time.

    Three times the largest spread of what null runs cost an operation in `trials`.
    """
    if unit not in _US:
        return None
    spreads_us = [
        float(trial.harness["spread_us"])
        for trial in trials
        if trial.harness and trial.harness.get("runs")
    ]
    return TIMES_SPREAD * max(spreads_us) / _US[unit] if spreads_us else None
