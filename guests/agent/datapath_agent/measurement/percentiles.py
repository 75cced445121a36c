"""Latency statistics exactly as msquic's secnetperf computes them.

Percentile q is sorted[int(N * q)], without interpolation; the variance divides by N - 1.
"""

from __future__ import annotations

from datapath_agent.workload import LOWER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

QUANTILES = {
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99_9": 0.999,
    "p99_99": 0.9999,
    "p99_999": 0.99999,
    "p99_9999": 0.999999,
}


def percentile(ordered: Sequence[int], quantile: float) -> int:
    return ordered[int(len(ordered) * quantile)]


def standard_error(samples: Sequence[int]) -> float:
    """0 for a single sample, whose variance is not defined."""
    count = len(samples)
    if count < 2:
        return 0.0
    mean = sum(samples) / count
    variance = sum((sample - mean) ** 2 for sample in samples) / (count - 1)
    return float(variance**0.5 / count**0.5)


def latency_metrics(samples_us: Sequence[int]) -> list[dict[str, Any]]:
    """Minimum, mean, maximum, percentiles and standard error, in microseconds."""
    ordered = sorted(samples_us)
    figures = {
        "latency_min": ordered[0],
        "latency_mean": sum(ordered) / len(ordered),
        **{f"latency_{name}": percentile(ordered, q) for name, q in QUANTILES.items()},
        "latency_max": ordered[-1],
        "latency_standard_error": standard_error(ordered),
    }
    return [metric(name, "us", LOWER, value) for name, value in figures.items()]
