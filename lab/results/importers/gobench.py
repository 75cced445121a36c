"""Go's benchmark format, which benchstat reads: a line a run, `go test -bench . -count 10`.

BenchmarkName-8   1000   1234 ns/op   56 B/op   3 allocs/op   100.5 MB/s
See golang.org/design/14313-benchmark-format; other lines are the business of other tools.
"""

from __future__ import annotations

import re
from collections import Counter

from lab.results.importers.source import Figure, Reading, Source, run_series
from lab.results.series import Better, Series, merged

_LINE = re.compile(r"^Benchmark(?P<name>\S*)\s+(?P<iterations>\d+)(?P<rest>\s+.*)?$")
# Rates; every other unit (ns/op, B/op, allocs/op, ...) is a cost.
_RATE = re.compile(r"/s$|^(ops|req|requests)/sec$", re.IGNORECASE)


def recognises(text: str) -> bool:
    return any(_LINE.match(line) for line in text.splitlines())


def read(source: Source) -> Reading:
    """A series a benchmark and unit; the metric is the unit, as in benchstat's tables."""
    parts: list[Series] = []
    runs: Counter[str] = Counter()
    for number, line in enumerate(source.lines, 1):
        match = _LINE.match(line)
        if not match:
            continue
        name = match["name"] or "Benchmark"
        runs[name] += 1
        parts += run_series(
            _figures(source, match["rest"] or "", number), run=str(runs[name]), labels=(name,)
        )
    return Reading(merged(parts))


def _figures(source: Source, rest: str, line: int) -> list[Figure]:
    words = rest.split()
    if not words or len(words) % 2:
        raise source.fault(
            "expected pairs of value and unit after the number of iterations",
            line=line,
            hint="the file may be cut off here",
        )
    return [
        Figure(unit, unit, better(unit), source.number(value, unit, line=line))
        for value, unit in zip(words[::2], words[1::2], strict=True)
    ]


def better(unit: str) -> Better:
    return "higher" if _RATE.search(unit) else "lower"
