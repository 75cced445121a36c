"""fio's JSON and JSON+ (`--output-format=json+`, which adds the bins of its latencies).

The fields are those of fio's own stat.c: rates of each direction, latencies in nanoseconds. Jobs
of one name ran at the same time: their rates add up, and percentiles are those of the merged bins
(percentiles of several jobs say nothing about all of them, so that without bins there are none).
"""

from __future__ import annotations

from collections import Counter, defaultdict

from lab.results.importers import node
from lab.results.importers.node import Node
from lab.results.importers.source import Figure, Histogram, Reading, Source, run_series
from lab.results.series import Series

_SIDES = ("read", "write", "trim")
_PERCENTILES = {
    "p50": "50.000000",
    "p90": "90.000000",
    "p99": "99.000000",
    "p99_9": "99.900000",
    "p99_99": "99.990000",
}


def recognises(text: str) -> bool:
    return '"fio version"' in text


def read(source: Source) -> Reading:
    """Rates and latencies of each job and direction that completed anything, a run in all."""
    jobs: dict[str, list[Node]] = defaultdict(list)
    for job in node.parse(source, "fio")["jobs"].elements():
        if (error := job.get("error")) and error.number():
            raise source.fault(
                f"{job.place} ended with error {error.value}: its figures are not whole"
            )
        jobs[job["jobname"].text()].append(job)
    series: list[Series] = []
    histograms: dict[str, Histogram] = {}
    for name, same in jobs.items():
        label = "-".join(name.split()) or "job"
        for side in _SIDES:
            reports = [job[side] for job in same if job.get(side)]
            reports = [report for report in reports if report["total_ios"].number() > 0]
            if not reports:
                continue
            histogram = _histogram(reports)
            if histogram:
                histograms[f"{label} {side}_latency_ns"] = histogram
            series += run_series(_figures(side, reports, histogram), labels=(label,))
    return Reading(tuple(series), histograms)


def _figures(side: str, reports: list[Node], histogram: Histogram) -> list[Figure]:
    latencies = [report["clat_ns"] for report in reports]
    counts = [report["total_ios"].number() for report in reports]
    means = [latency["mean"].number() for latency in latencies]
    mean_ns = sum(mean * count for mean, count in zip(means, counts, strict=True)) / sum(counts)
    iops = sum(report["iops"].number() for report in reports)
    bytes_per_s = sum(_bytes_per_s(report) for report in reports)
    figures_us = {
        "mean": mean_ns / 1000,
        **_percentiles_us(latencies, histogram),
        "max": max(latency["max"].number() for latency in latencies) / 1000,
    }
    return [
        Figure(f"{side}_iops", "IOPS", "higher", iops),
        Figure(f"{side}_throughput", "MiB/s", "higher", bytes_per_s / 1024**2),
        *(
            Figure(f"{side}_latency_{name}", "us", "lower", value)
            for name, value in figures_us.items()
        ),
    ]


def _bytes_per_s(report: Node) -> float:
    """fio before 3.0 tells KiB a second only."""
    if in_bytes := report.get("bw_bytes"):
        return in_bytes.number()
    return report["bw"].number() * 1024


def _percentiles_us(latencies: list[Node], histogram: Histogram) -> dict[str, float]:
    if len(latencies) == 1:
        reported = latencies[0].get("percentile")
        found = {name: reported.get(key) for name, key in _PERCENTILES.items()} if reported else {}
        return {name: each.number() / 1000 for name, each in found.items() if each}
    if not histogram:
        return {}
    return {
        name: percentile(histogram, float(key) / 100) / 1000 for name, key in _PERCENTILES.items()
    }


def _histogram(reports: list[Node]) -> Histogram:
    """The bins of all reports together; empty unless each has them."""
    merged: Counter[float] = Counter()
    for report in reports:
        bins = report["clat_ns"].get("bins")
        if bins is None:
            return ()
        for value, count in bins.items():
            if count.number() < 0:
                raise bins.source.fault(f"{count.place}: expected a count, found {count.value}")
            merged[bins.source.number(value, bins.place)] += int(count.number())
    return tuple(sorted(merged.items()))


def percentile(histogram: Histogram, quantile: float) -> float:
    """The value of the first bin at which `quantile` (0 to 1) of all samples are reached."""
    total = sum(count for _, count in histogram)
    seen = 0
    for value, count in histogram:
        seen += count
        if seen >= quantile * total:
            return value
    raise ValueError("an empty histogram has no percentiles")
