"""perftest (ib_write_bw, ib_send_lat and their relatives): `--out_json`, and the printed table.

In the versions that distributions ship, the keys of the "JSON" are not quoted, so it is read line
by line. It does not tell whether `--report_gbits` was given: units of its bandwidths are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from datapath_agent.protocol import Fault
from datapath_agent.workloads import perftest as agent

from lab.results.importers.source import Figure, Reading, Source, run_series
from lab.results.series import Better, Series

_ENTRY = re.compile(r'^\s*"?(?P<key>[A-Za-z_][\w.]*)"?\s*:\s*"?(?P<value>[^",}]*)"?\s*,?\s*\}?\s*$')
_RESULTS = re.compile(r'^\s*"?results"?\s*:\s*\{\s*$', re.MULTILINE)
_CUT = "the file may be cut off here"
_BANDWIDTH = "MiB/s or Gbit/s"
_METRICS: dict[str, tuple[str, str, Better]] = {
    "BW_peak": ("bandwidth_peak", _BANDWIDTH, "higher"),
    "BW_average": ("bandwidth", _BANDWIDTH, "higher"),
    "MsgRate": ("message_rate", "Mmsg/s", "higher"),
    "t_min": ("latency_min", "us", "lower"),
    "t_max": ("latency_max", "us", "lower"),
    "t_typical": ("latency_p50", "us", "lower"),
    "t_avg": ("latency_mean", "us", "lower"),
    "t_stdev": ("latency_stddev", "us", "lower"),
    "percentile_99": ("latency_p99", "us", "lower"),
    "percentile_99.9": ("latency_p99_9", "us", "lower"),
    "tps_average": ("transactions_per_s", "1/s", "higher"),
}


def recognises(text: str) -> bool:
    return bool(re.search(r'"?test_info"?\s*:\s*\{', text)) or " #bytes" in text


def read(source: Source) -> Reading:
    """One run, of each message size in it. Raises InputError for a file without an end."""
    return Reading(tuple(_json(source) if "{" in source.text else _table(source)))


def _json(source: Source) -> Iterator[Series]:
    blocks = list(_RESULTS.finditer(source.text))
    if not blocks:
        raise source.fault("expected `results: {` of perftest's JSON", line=len(source.lines))
    if source.text.count("{") != source.text.count("}"):
        raise source.fault("expected a `}` for every `{`", line=len(source.lines), hint=_CUT)
    for block in blocks:
        yield from _results(source, source.text.count("\n", 0, block.end()) + 2)


def _results(source: Source, first: int) -> tuple[Series, ...]:
    """The block whose first line has number `first`."""
    figures, labels = [], []
    for number, line in enumerate(source.lines[first - 1 :], first):
        if line.strip().startswith("}"):
            break
        if not line.strip():
            continue
        entry = _ENTRY.match(line)
        if not entry:
            raise source.fault(f"expected `name: value`, found {line.strip()[:60]!r}", line=number)
        value = source.number(entry["value"].strip(), entry["key"], line=number)
        if entry["key"] == "MsgSize":
            labels.append(f"bytes={value:.15g}")
        # A peak of 0 means that none was measured.
        elif entry["key"] in _METRICS and not (entry["key"] == "BW_peak" and value == 0):
            figures.append(Figure(*_METRICS[entry["key"]], value))
    return run_series(figures, labels=tuple(labels))


def _table(source: Source) -> Iterator[Series]:
    """Each row, as the agent reads perftest's standard output."""
    heading = ""
    for number, line in enumerate(source.lines, 1):
        if line.lstrip().startswith("#bytes"):
            heading = line
        elif heading and line.strip()[:1].isdigit():
            try:
                told = agent.parse(f"{heading}\n{line}")
            except Fault as fault:
                raise source.fault(str(fault), line=number, hint=_CUT) from None
            figures = [
                Figure(each["name"], each["unit"], each["direction"], float(each["value"]))
                for each in told
            ]
            yield from run_series(figures, labels=(f"bytes={line.split()[0]}",))
        elif heading and line.strip():
            heading = ""
