"""A CSV table: columns whose names tell a unit hold figures, the others say of what.

`connections,variant,run,rps,min_us`: rps and min_us are metrics, run counts repetitions, and
connections=40 variant=main label what the row is of. Rows of the same labels are runs of one
thing. Empty cells are figures that were not taken; a `note` is for people.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

from lab.results.importers.source import Figure, Reading, Source, run_series
from lab.results.series import Better, Series, merged

_RUN = "run"
_NOTE = "note"
# The end of a column's name: unit, direction.
_UNITS: dict[str, tuple[str, Better]] = {
    "ns": ("ns", "lower"),
    "us": ("us", "lower"),
    "ms": ("ms", "lower"),
    "s": ("s", "lower"),
    "rps": ("1/s", "higher"),
    "per_s": ("1/s", "higher"),
    "rate": ("1/s", "higher"),
    "iops": ("IOPS", "higher"),
    "kiops": ("kIOPS", "higher"),
    "gbps": ("Gbit/s", "higher"),
    "mbps": ("Mbit/s", "higher"),
    "gb_per_s": ("GB/s", "higher"),
    "mb_per_s": ("MB/s", "higher"),
    "gib_per_s": ("GiB/s", "higher"),
    "mib_per_s": ("MiB/s", "higher"),
}
_UNIT = re.compile(rf"(?:^|_)(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})$")
# `gbps_low` and `gbps_high` are ends of a range in which the figure was.
_ENDS = re.compile(r"_(low|high)$")


def recognises(text: str) -> bool:
    heading = text.lstrip().split("\n", 1)[0].strip()
    return any(unit_of(name.strip()) for name in heading.split(",")) and "," in heading


def unit_of(column: str) -> tuple[str, Better] | None:
    """Unit and direction that a column's name tells; None for a label."""
    match = _UNIT.search(_ENDS.sub("", column.lower()))
    return _UNITS[match["unit"]] if match else None


def read(source: Source) -> Reading:
    """A series a metric and set of labels. Raises InputError for rows of another width."""
    rows = csv.reader(io.StringIO(source.text), strict=True)
    parts: list[Series] = []
    runs: Counter[tuple[str, ...]] = Counter()
    try:
        heading = [name.strip() for name in next(rows, [])]
        if not any(map(unit_of, heading)):
            raise source.fault(
                "expected a heading with columns whose names end in a unit",
                line=1,
                hint=f"such as rps, latency_us or read_mib_per_s; units: {', '.join(_UNITS)}",
            )
        if len(set(heading)) != len(heading):
            raise source.fault("expected every column to have a name of its own", line=1)
        for cells in rows:
            if not cells:
                continue
            if len(cells) != len(heading):
                raise source.fault(
                    f"expected {len(heading)} columns, found {len(cells)}", line=rows.line_num
                )
            row = dict(zip(heading, (cell.strip() for cell in cells), strict=True))
            labels = _labels(row)
            runs[labels] += 1
            parts += run_series(
                _figures(source, row, rows.line_num),
                run=row.get(_RUN) or str(runs[labels]),
                labels=labels,
            )
    except csv.Error as error:
        raise source.fault(f"expected CSV: {error}", line=rows.line_num) from None
    return Reading(merged(parts))


def _labels(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{name}={'-'.join(cell.split())}"
        for name, cell in row.items()
        if cell and name not in (_RUN, _NOTE) and not unit_of(name)
    )


def _figures(source: Source, row: dict[str, str], line: int) -> list[Figure]:
    return [
        Figure(name, *unit, source.number(cell, name, line=line))
        for name, cell in row.items()
        if cell and (unit := unit_of(name))
    ]
