"""The figures of an end, from what its processes counted; also as secnetperf prints them."""

from __future__ import annotations

from datapath_agent.measurement.percentiles import QUANTILES, percentile, standard_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LAYER = (
    "user-space event loops over real UDP sockets, where epoll, a deque and an eventfd stand in "
    "for the completion port; no QUIC, no encryption, no Windows"
)
# Counters that are also told by request: the mechanism's own evidence.
_BY_REQUEST = (
    "sends_queued",
    "recv_posted",
    "epoll_wakeups",
    "voluntary_switches",
    "involuntary_switches",
)


def requests_a_second(completed: int, runtime_us: int) -> int:
    """As secnetperf's: whole milliseconds, and the quotient truncated."""
    return completed * 1000 // max(1, runtime_us // 1000)


def counters(counted: Sequence[dict[str, float]], requests: int) -> dict[str, float]:
    """The sum over an end's processes, and the telling ones for each of `requests`.

    In bulk mode a datagram is a request. Empty where there was no process to count.
    """
    names = counted[0] if counted else {}
    total = {name: sum(each[name] for each in counted) for name in names}
    if total and requests:
        for name in _BY_REQUEST:
            total[f"{name}_per_request"] = total[name] / requests
        used_us = (total["user_s"] + total["system_s"]) * 1e6
        total["cpu_us_per_request"] = used_us / requests
    return total


def secnetperf_lines(rps: int, samples_us: Sequence[int]) -> tuple[str, str]:
    """The program's own line, and the one that its repository's scripts make of it."""
    ordered = sorted(samples_us)
    labels = [f"{quantile * 100:.10g}th" for quantile in QUANTILES.values()]
    shown = ", ".join(
        f"{label}: {percentile(ordered, quantile):.6f}"
        for label, quantile in zip(labels, QUANTILES.values())
    )
    error = f"{standard_error(ordered):.6f}"
    return (
        f"Result: {rps} RPS, Min: {ordered[0]}, Max: {ordered[-1]}, {shown}, StdErr: {error}",
        f"Run 1: {rps} RPS, Minimum: {ordered[0]}, Maximum: {ordered[-1]}, Percentiles: {shown}, "
        f"Standard Error: {error}",
    )
