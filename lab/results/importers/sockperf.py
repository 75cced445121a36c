"""sockperf: a client's report, and the log of every packet (`--full-log FILE`).

Without `--full-rtt` sockperf halves round trips and calls them latencies; the metric's name says
which it was. Everything is in microseconds.
"""

from __future__ import annotations

import re

from lab.results.importers.source import Figure, Reading, Source, run_series

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOG_HEADING = re.compile(
    r"^packet, txTime\(sec\), rxTime\(sec\), (?P<what>\w+)\(usec\)\s*$", re.MULTILINE
)
_MEAN = re.compile(r"avg-(?P<what>rtt|latency|lat)=(?P<value>[0-9.]+)")
_PERCENTILE = re.compile(r"percentile\s+(?P<percent>[0-9.]+)\s*=\s*(?P<value>[0-9.]+)")
_DURATION = re.compile(
    r"\[Valid Duration\] RunTime=(?P<seconds>[0-9.]+) sec;.*ReceivedMessages=(?P<received>[0-9]+)"
)
_LOG_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
_RULE = "-" * 10


def recognises(text: str) -> bool:
    return bool(_LOG_HEADING.search(text)) or bool(re.search(r"^sockperf: ", text, re.MULTILINE))


def read(source: Source) -> Reading:
    """A run. Raises InputError if no message was answered, or the report has no end."""
    heading = _LOG_HEADING.search(source.text)
    for is_one in (_LOG_HEADING, _DURATION):
        if len(is_one.findall(source.text)) > 1:
            raise source.fault(
                "expected one report of one server, found several",
                hint="give every run a file of its own",
            )
    figures = _log(source, heading) if heading else _report(source)
    return Reading(run_series(figures))


def _report(source: Source) -> list[Figure]:
    text = _COLOUR.sub("", source.text)
    for complaint in ("No messages were received", "No valid observations found"):
        if complaint in text:
            raise source.fault(f"sockperf measured nothing: {complaint.lower()}")
    mean = _find(source, _MEAN, text, "the average (`avg-rtt=` or `avg-latency=`)")
    what = "rtt" if mean["what"] == "rtt" else "latency"
    figures = {"mean": source.number(mean["value"], "the average")}
    for match in _PERCENTILE.finditer(text):
        percent = source.number(match["percent"], "a percentile")
        name = f"{percent:.10g}".replace(".", "_")
        figures[f"p{name}"] = source.number(match["value"], f"percentile {match['percent']}")
    for name, title in (("max", "<MAX>"), ("min", "<MIN>")):
        pattern = re.compile(rf"{title} observation\s*=\s*(?P<value>[0-9.]+)")
        figures[name] = source.number(_find(source, pattern, text, title)["value"], title)
    duration = _find(source, _DURATION, text, "a `[Valid Duration]`")
    seconds = source.number(duration["seconds"], "RunTime")
    if seconds <= 0:
        raise source.fault("expected a `[Valid Duration]` above 0 seconds")
    rate = source.number(duration["received"], "ReceivedMessages") / seconds
    return [
        Figure("round_trips_per_s", "1/s", "higher", rate),
        *(Figure(f"{what}_{name}", "us", "lower", value) for name, value in figures.items()),
    ]


def _find(source: Source, pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.search(text)
    if not match:
        raise source.fault(
            f"expected {what} in sockperf's report",
            line=len(source.lines),
            hint="the file may be cut off",
        )
    return match


def _log(source: Source, heading: re.Match[str]) -> list[Figure]:
    """Percentile q is sorted[int(N * q)], as everywhere in the lab."""
    first = source.text.count("\n", 0, heading.start()) + 2
    values = []
    for number, line in enumerate(source.lines[first - 1 :], first):
        if line.startswith(_RULE):
            break
        cells = line.split(",")
        if len(cells) != 4:
            raise source.fault("expected four columns of sockperf's full log", line=number)
        values.append(source.number(cells[3].strip(), "the fourth column", line=number))
    else:
        raise source.fault(
            "expected a line of dashes after the last packet",
            line=len(source.lines),
            hint="the file may be cut off",
        )
    if not values:
        return []
    ordered = sorted(values)
    what = "rtt" if heading["what"] == "rtt" else "latency"
    figures = {
        "mean": sum(ordered) / len(ordered),
        "min": ordered[0],
        **{name: ordered[int(len(ordered) * q)] for name, q in _LOG_QUANTILES.items()},
        "max": ordered[-1],
    }
    return [Figure(f"{what}_{name}", "us", "lower", value) for name, value in figures.items()]
