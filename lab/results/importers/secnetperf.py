"""msquic's secnetperf: its own line, its repository's scripts' line, and that of later versions.

Result: %u RPS, Min: %d, Max: %d, 50th: %f, ... 99.9999th: %f, StdErr: %f       (src/perf)
Run 1: 5770 RPS, Minimum: 100, ..., Percentiles: 50th: 171.000000, ..., Standard Error: 0.312330
Result: %u RPS, Latency,us 0th: %d, 50th: %.0f, ... 99.9999th: %.0f, Max: %d    (later)

Latencies are in microseconds. A line is a run; a line of words before the runs labels them.
"""

from __future__ import annotations

import re
from collections import Counter

from lab.results.importers.source import Figure, Reading, Source, run_series
from lab.results.series import Series, merged

_RUN = re.compile(r"^\s*(?:Result|Run (?P<run>\d+)): (?P<rps>\S+) RPS(?P<rest>.*)$")
_PAIR = re.compile(r"(?P<name>[A-Za-z0-9.]+(?: Error)?): (?P<value>[^,]*)")
_QUANTILES = ("50", "90", "99", "99.9", "99.99", "99.999", "99.9999")
_NAMES = {
    "0th": "latency_min",
    "Min": "latency_min",
    "Minimum": "latency_min",
    "Max": "latency_max",
    "Maximum": "latency_max",
    "StdErr": "latency_standard_error",
    "Standard Error": "latency_standard_error",
    **{f"{each}th": f"latency_p{each.replace('.', '_')}" for each in _QUANTILES},
}
_NEEDED = frozenset(
    {"latency_min", "latency_max", *(f"latency_p{each.replace('.', '_')}" for each in _QUANTILES)}
)
_LABEL_LENGTH = 40


def recognises(text: str) -> bool:
    return any(_RUN.match(line) for line in text.splitlines())


def read(source: Source) -> Reading:
    """One series a metric and heading. Raises InputError for a line that is not whole."""
    parts: list[Series] = []
    heading, is_new = "", False
    tests: Counter[str] = Counter()
    runs: Counter[tuple[str, ...]] = Counter()
    labels: tuple[str, ...] = ()
    for number, line in enumerate(source.lines, 1):
        match = _RUN.match(line)
        if not match:
            if line.strip():
                heading, is_new = _label(line), True
            continue
        # The program's own line stands among its messages, not below a heading.
        if match["run"] and heading and is_new:
            # The same heading again is another test: its runs are not more of the first's.
            tests[heading] += 1
            labels = (heading if tests[heading] == 1 else f"{heading}-{tests[heading]}",)
        is_new = False
        runs[labels] += 1
        parts += run_series(
            _figures(source, match, number), run=match["run"] or str(runs[labels]), labels=labels
        )
    return Reading(merged(parts))


def _label(line: str) -> str:
    """A heading as one word; "" for a line that is prose."""
    words = line.strip().rstrip(":")
    return "-".join(words.split()) if len(words) <= _LABEL_LENGTH else ""


def _figures(source: Source, match: re.Match[str], line: int) -> list[Figure]:
    rps = source.number(match["rps"], "requests a second", line=line)
    latencies = {}
    for pair in _PAIR.finditer(match["rest"].replace("Percentiles: ", "")):
        if name := _NAMES.get(pair["name"]):
            latencies[name] = source.number(pair["value"].strip(), pair["name"], line=line)
    if missing := _NEEDED - latencies.keys():
        raise source.fault(
            f"expected a whole line of secnetperf; it lacks {', '.join(sorted(missing))}",
            line=line,
            hint="the file may be cut off here",
        )
    return [
        Figure("rps", "1/s", "higher", rps),
        *(Figure(name, "us", "lower", value) for name, value in latencies.items()),
    ]
