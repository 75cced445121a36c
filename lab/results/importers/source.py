"""A file being imported, what was read from it, and how a fault in it is told."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from lab.errors import InputError
from lab.results.series import Better, Series

MAX_BYTES = 512 * 1024**2
# What PowerShell's `>` writes.
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# [value of a bucket, how many samples were in it] pairs.
Histogram = tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Reading:
    """What a file holds; `histograms` by name of what they are the distribution of."""

    series: tuple[Series, ...]
    histograms: Mapping[str, Histogram] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A file's text."""

    path: Path
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def fault(
        self, message: str, *, line: int = 0, column: int = 0, hint: str | None = None
    ) -> InputError:
        """An InputError that names the file and, if they are known, line and column (from 1)."""
        place = "".join(f":{number}" for number in (line, column) if number)
        return InputError(message, where=f"{self.path}{place}", hint=hint)

    def number(self, text: str, what: str, *, line: int = 0) -> float:
        """The finite number that `text` is."""
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise self.fault(f"{what}: expected a number, found {text[:60]!r}", line=line)
        return value


@dataclass(frozen=True)
class Figure:
    """One figure of one run, on the way into a series."""

    metric: str
    unit: str
    better: Better
    value: float


def run_series(
    figures: Sequence[Figure], *, run: str = "", labels: tuple[str, ...] = ()
) -> tuple[Series, ...]:
    """The figures of one run as series of one boot; `run` "" stands for the file itself."""
    return tuple(
        Series(each.metric, each.unit, each.better, ((each.value,),), (run,), labels)
        for each in figures
    )


def load(path: Path) -> Source:
    """Read `path` as text. Raises InputError for what is missing, too large or no text."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", where=str(path)) from None
    if len(data) > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES // 1024**2} MiB of results", where=str(path))
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    try:
        return Source(path, data.decode(encoding))
    except UnicodeDecodeError as error:
        raise InputError(
            f"no text: byte {error.start} is not {encoding}",
            where=str(path),
            hint="give the output of a tool as it was written",
        ) from None
