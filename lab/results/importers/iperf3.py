"""iperf3's JSON (`-J`): a TCP or UDP test, as its end tells it."""

from __future__ import annotations

from lab.results.importers import node
from lab.results.importers.node import Node
from lab.results.importers.source import Figure, Reading, Source, run_series


def recognises(text: str) -> bool:
    return '"intervals"' in text and '"start"' in text


def read(source: Source) -> Reading:
    """What arrived. Raises InputError for a test that iperf3 itself calls failed."""
    document = node.parse(source, "iperf3")
    if problem := document.get("error"):
        raise source.fault(
            f"iperf3 failed, so that its figures are not whole: {str(problem.value)[:200]}"
        )
    test = document["start"]["test_start"]
    protocol = test["protocol"].text().lower()
    streams = test["num_streams"].number()
    labels = [protocol, f"streams={streams:g}"]
    if (reverse := test.get("reverse")) and reverse.number():
        labels.append("reverse")
    end = document["end"]
    figures = _udp(end) if protocol == "udp" else _tcp(end)
    return Reading(run_series(figures, labels=tuple(labels)))


def _tcp(end: Node) -> list[Figure]:
    figures = [_throughput(end["sum_received"])]
    # Only Linux and FreeBSD count them.
    if retransmits := end["sum_sent"].get("retransmits"):
        figures.append(Figure("retransmits", "segments", "lower", retransmits.number()))
    if back := end.get("sum_received_bidir_reverse"):
        figures.append(_throughput(back, "throughput_back"))
    return figures


def _udp(end: Node) -> list[Figure]:
    # Before 3.10 there is one sum, of what the receiver reported.
    received = end.get("sum_received") or end["sum"]
    return [
        _throughput(received),
        Figure("jitter", "us", "lower", received["jitter_ms"].number() * 1000),
        Figure("lost", "%", "lower", received["lost_percent"].number()),
    ]


def _throughput(report: Node, name: str = "throughput") -> Figure:
    return Figure(name, "Gbit/s", "higher", report["bits_per_second"].number() / 1e9)
