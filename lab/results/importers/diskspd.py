"""DISKSPD's XML (`-Rxml`): one run a time span, sums over threads and targets.

As written by XmlResultParser.cpp: counts of each Target, a test time in seconds, and with `-L`
latencies in milliseconds over all targets, from percentile 0 to 100.
"""

from __future__ import annotations

from xml.etree import ElementTree

from lab.results.importers.source import Figure, Reading, Source, run_series
from lab.results.series import Series, merged

_SIDES = {"read": "Read", "write": "Write"}
_PERCENTILES = {
    "min": "0",
    "p50": "50",
    "p90": "90",
    "p99": "99",
    "p99_9": "99.9",
    "p99_99": "99.99",
    "max": "100",
}


def recognises(text: str) -> bool:
    return text.lstrip().startswith("<Results") or ("<Results>" in text and "<?xml" in text)


def read(source: Source) -> Reading:
    """A run a TimeSpan. Raises InputError for XML without an end, and for an interrupted test."""
    if "<!DOCTYPE" in source.text:
        raise source.fault("expected DISKSPD's XML, which has no DOCTYPE")
    try:
        root = ElementTree.fromstring(source.text.lstrip())
    except ElementTree.ParseError as error:
        line, column = error.position
        skipped = len(source.text) - len(source.text.lstrip())
        raise source.fault(
            f"expected DISKSPD's XML: {error.msg.split(':')[0]}",
            line=line + source.text.count("\n", 0, skipped),
            column=column + 1,
            hint="the file may be cut off",
        ) from None
    if root.tag != "Results":
        raise source.fault(f"expected <Results>, found <{root.tag}>", line=1)
    parts: list[Series] = []
    for number, span in enumerate(root.findall("TimeSpan"), 1):
        if (told := span.findtext("Error")) is not None:
            raise source.fault(f"time span {number} measured nothing: {told}")
        parts += run_series(_figures(source, span), run=str(number))
    return Reading(merged(parts))


def _figures(source: Source, span: ElementTree.Element) -> list[Figure]:
    seconds = _number(source, span, "TestTimeSeconds")
    if seconds <= 0:
        raise source.fault(f"expected a TestTimeSeconds above 0, found {seconds:g}")
    targets = span.findall("Thread/Target")
    figures = []
    for side, prefix in _SIDES.items():
        requests = sum(_number(source, target, f"{prefix}Count") for target in targets)
        if not requests:
            continue
        data_bytes = sum(_number(source, target, f"{prefix}Bytes") for target in targets)
        figures += [
            Figure(f"{side}_iops", "IOPS", "higher", requests / seconds),
            Figure(f"{side}_throughput", "MiB/s", "higher", data_bytes / seconds / 1024**2),
            *_latencies(source, span, side, prefix),
        ]
    if span.find("CpuUtilization/Average/UsagePercent") is not None:
        busy = _number(source, span, "CpuUtilization/Average/UsagePercent")
        figures.append(Figure("cpu", "%", "lower", busy))
    return figures


def _latencies(source: Source, span: ElementTree.Element, side: str, prefix: str) -> list[Figure]:
    latency = span.find("Latency")
    if latency is None:
        return []
    found = {"mean": _number(source, latency, f"Average{prefix}Milliseconds")}
    buckets = {bucket.findtext("Percentile"): bucket for bucket in latency.findall("Bucket")}
    for name, percentile in _PERCENTILES.items():
        if percentile in buckets:
            found[name] = _number(source, buckets[percentile], f"{prefix}Milliseconds")
    return [
        Figure(f"{side}_latency_{name}", "us", "lower", value * 1000)
        for name, value in found.items()
    ]


def _number(source: Source, element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path)
    if text is None:
        raise source.fault(f"expected <{path}> in <{element.tag}>, which is not there")
    return source.number(text.strip(), f"<{element.tag}> <{path}>")
