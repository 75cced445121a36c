"""The figures of a run, from its processes' reports and the receiving end's."""

from __future__ import annotations

from datapath_agent.measurement.histogram import Histogram
from datapath_agent.measurement.series import coefficient_of_variation, lowest_to_highest
from datapath_agent.workload import HIGHER, LOWER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Report = dict[str, Any]

# A bin below this share of the line rate counts as low.
LOW_SHARE = 0.9


def throughput(bins: Sequence[int], bin_s: float, line_rate_mbps: int) -> list[dict[str, Any]]:
    """Mean and steadiness over whole intervals, and how they compare with the line."""
    rates_gbps = [amount * 8 / bin_s / 1e9 for amount in bins]
    mean_gbps = sum(rates_gbps) / len(rates_gbps) if rates_gbps else 0.0
    found = [
        metric("throughput", "Gbit/s", HIGHER, mean_gbps),
        metric("lowest_to_highest", "ratio", HIGHER, lowest_to_highest(list(bins))),
        metric("variation", "CV", LOWER, coefficient_of_variation(list(bins))),
    ]
    if line_rate_mbps:
        line_gbps = line_rate_mbps / 1000
        low = sum(rate < LOW_SHARE * line_gbps for rate in rates_gbps)
        found += [
            metric("of_line", "ratio", HIGHER, mean_gbps / line_gbps),
            metric("low_bins", "ratio", LOWER, low / len(rates_gbps) if rates_gbps else 1.0),
        ]
    return found


def small_starts(
    reports: Sequence[Report], runtime_s: float
) -> tuple[list[dict[str, Any]], Histogram]:
    """How long senders of small frames were held up by handing a frame over."""
    durations_ns = Histogram("ns")
    small = [report for report in reports if "durations_ns" in report]
    for report in small:
        durations_ns.merge(report["durations_ns"])
    if not durations_ns.total:
        return [], durations_ns
    figures = {
        "small_start_p50": durations_ns.percentile(0.5),
        "small_start_p99": durations_ns.percentile(0.99),
        "small_start_max": max(report["longest_ns"] for report in small),
    }
    return [
        *(metric(name, "us", LOWER, value / 1e3) for name, value in figures.items()),
        metric("small_frames", "1/s", HIGHER, durations_ns.total / runtime_s),
    ], durations_ns


def counters(reports: Sequence[Report], received: Report | None) -> dict[str, float]:
    """What was counted since the first frame, warm-up included, and the telling ratios."""
    counted: dict[str, float] = {}
    for report in reports:
        for name, value in report["counts"].items():
            counted[name] = counted.get(name, 0) + value
    sent = sum(counted.get(role, 0) for role in ("direct", "by_task", "by_txeof"))
    used = [report["used"] for report in reports if report.get("used")]
    for name in used[0] if used else ():
        counted[name] = sum(each[name] for each in used)
    if sent:
        counted["direct_share"] = counted["direct"] / sent
        counted["tasks_per_frame"] = counted["task_runs"] / sent
        counted["no_txdescs_per_frame"] = counted["no_txdescs"] / sent
        switches = counted.get("involuntary_switches", 0)
        counted["involuntary_switches_per_frame"] = switches / sent
    if counted.get("handoffs"):
        counted["contended_per_handoff"] = counted["contended"] / counted["handoffs"]
        counted["deferred_big_per_handoff"] = counted["deferred_big"] / counted["handoffs"]
    counted["small_late"] = sum(report.get("late", 0) for report in reports)
    runs = sum(report.get("control_runs", 0) for report in reports)
    counted["control_runs"] = runs
    if runs:
        held_ns = sum(report.get("control_held_ns", 0) for report in reports)
        counted["control_held_us"] = held_ns / runs / 1e3
    if received:
        counted["received_frames"] = received["frames"]
        counted["order_violations"] = received["order_violations"]
    return counted
