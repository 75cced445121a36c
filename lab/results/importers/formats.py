"""Every format that can be imported, and which one a file has: a new one is a module and a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.errors import InputError
from lab.results.importers import (
    diskspd,
    fio,
    gobench,
    iperf3,
    labrun,
    own,
    perftest,
    secnetperf,
    sockperf,
    table,
)
from lab.results.importers.source import Histogram, Reading, Source, load
from lab.results.series import Series, merged


@dataclass(frozen=True)
class Format:
    """`recognises` looks at a file's text, `read` raises InputError for what it cannot read."""

    what: str
    recognises: Callable[[str], bool]
    read: Callable[[Source], Reading]


# The first that recognises a file reads it: what is unmistakable goes first.
FORMATS = {
    "lab": Format("the JSON of `lab import --json`", own.recognises, own.read),
    "labrun": Format("the runs of `lab run --out`", labrun.recognises, labrun.read),
    "fio": Format("fio's JSON or JSON+", fio.recognises, fio.read),
    "iperf3": Format("iperf3's JSON", iperf3.recognises, iperf3.read),
    "perftest": Format("perftest's JSON or table", perftest.recognises, perftest.read),
    "diskspd": Format("DISKSPD's XML", diskspd.recognises, diskspd.read),
    "secnetperf": Format("secnetperf's lines", secnetperf.recognises, secnetperf.read),
    "sockperf": Format("sockperf's report or full log", sockperf.recognises, sockperf.read),
    "gobench": Format("Go's benchmark format", gobench.recognises, gobench.read),
    "table": Format("a CSV table", table.recognises, table.read),
}


def read_file(path: Path, name: str | None = None) -> Reading:
    """What `path` holds, in format `name` or the one it is found to have.

    Raises InputError naming the file, and the place in it where that is known.
    """
    return _read(path, name)[1]


def read_files(paths: Sequence[Path], name: str | None = None) -> Reading:
    """What all files of `paths` and of the directories among them hold together.

    Every file is a run (or several, which its format tells apart): a run is named after its file
    where there are several files. Files of several formats are labelled with them, as two tools
    may call different things alike.
    """
    files = [file for path in paths for file in _files(path)]
    found = [_read(file, name) for file in files]
    if len(files) == 1:
        return found[0][1]
    is_mixed = len({format for format, _ in found}) > 1
    series: list[Series] = []
    histograms: dict[str, Histogram] = {}
    for file, (format, reading) in zip(files, found, strict=True):
        label = (format,) if is_mixed else ()
        series += [_of_file(file.name, label, each) for each in reading.series]
        histograms |= {f"{file.name} {key}": each for key, each in reading.histograms.items()}
    return Reading(merged(series), histograms)


def _of_file(file: str, label: tuple[str, ...], series: Series) -> Series:
    ids = tuple(f"{file}:{each}" if each else file for each in series.ids)
    return replace(series, ids=ids, labels=(*label, *series.labels))


def _read(path: Path, name: str | None) -> tuple[str, Reading]:
    source = load(path)
    found = _format(source, name)
    return found, FORMATS[found].read(source)


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        files = sorted(each for each in path.iterdir() if each.is_file() and each.name[0] != ".")
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", where=str(path)) from None
    if not files:
        raise InputError("no files to import", where=str(path))
    return files


def _format(source: Source, name: str | None) -> str:
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"--format {name}: it is one of {', '.join(FORMATS)}")
        return name
    if not source.text.strip():
        raise source.fault("expected results, found an empty file")
    for key, candidate in FORMATS.items():
        if candidate.recognises(source.text):
            return key
    known = ", ".join(f"{each.what} ({key})" for key, each in FORMATS.items())
    raise source.fault(f"expected one of: {known}", line=1, hint="name it with --format")
