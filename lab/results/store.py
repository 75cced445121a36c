"""Runs of all nights in one SQLite file: what each variant measured in each boot, and verdicts.

Only means and verdicts are here, for trends; the samples stay in the runs' own directories. What
may be compared with what is lab.results.history.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.host.state import state_root
from lab.report.model import Report
from lab.topology.experiment import Experiment

VERSION = 1
BUSY_S = 10.0

_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, topology TEXT NOT NULL, profile TEXT NOT NULL, created TEXT NOT NULL,
    accelerator TEXT NOT NULL, fingerprint TEXT NOT NULL, verdict TEXT NOT NULL
) STRICT;
CREATE TABLE figures (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    experiment TEXT NOT NULL, variant TEXT NOT NULL, metric TEXT NOT NULL, boot INTEGER NOT NULL,
    unit TEXT NOT NULL, direction TEXT NOT NULL, definition TEXT NOT NULL,
    mean REAL NOT NULL, trials INTEGER NOT NULL,
    PRIMARY KEY (run, experiment, variant, metric, boot)
) STRICT;
CREATE TABLE findings (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    experiment TEXT NOT NULL, gate TEXT NOT NULL, verdict TEXT NOT NULL,
    estimate REAL, low REAL, high REAL,
    PRIMARY KEY (run, experiment, gate)
) STRICT;
"""


@dataclass(frozen=True)
class StoredRun:
    """One run, without its figures."""

    id: str
    topology: str
    profile: str
    created: str
    accelerator: str
    fingerprint: Mapping[str, str]
    verdict: str


@dataclass(frozen=True)
class Series:
    """What one run measured of one metric of one variant: `boots` are the means of its boots.

    `definition` is a digest of what was asked of the guests: a variant whose parameters were
    edited is another one.
    """

    run: StoredRun
    experiment: str
    variant: str
    metric: str
    unit: str
    direction: str
    definition: str
    boots: tuple[float, ...]

    @property
    def value(self) -> float:
        return statistics.fmean(self.boots)


@dataclass(frozen=True)
class StoredFinding:
    """What became of a gate in one run."""

    run: str
    experiment: str
    gate: str
    verdict: str


def default_path() -> Path:
    return state_root() / "results.sqlite"


def record(report: Report) -> None:
    """Keep the run in this host's own store. Raises as `opened` does."""
    with opened(default_path()) as store:
        store.record(report)


class Store:
    """An open store. Made by `opened`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def record(self, report: Report) -> None:
        """Keep the run's means and verdicts, all or nothing. Again for the same run: replaced,
        as a run that was continued or judged again says more than it did."""
        manifest = report.manifest
        run = (
            manifest.id, manifest.topology, manifest.profile, manifest.created,
            manifest.accelerator, json.dumps(dict(manifest.fingerprint), sort_keys=True),
            str(report.verdict),
        )  # fmt: skip
        findings = [
            (manifest.id, each.experiment, each.gate, str(each.verdict), each.estimate, each.low,
             each.high)
            for each in report.findings
        ]  # fmt: skip
        with self._connection as transaction:
            transaction.execute("DELETE FROM runs WHERE id = ?", (manifest.id,))
            _insert(transaction, "runs", [run])
            _insert(transaction, "figures", list(_figures(report)))
            _insert(transaction, "findings", findings)

    def runs(self) -> list[StoredRun]:
        """Every run, the oldest first."""
        rows = self._connection.execute(
            "SELECT id, topology, profile, created, accelerator, fingerprint, verdict"
            " FROM runs ORDER BY created, id"
        )
        return [
            StoredRun(run, topology, profile, created, accelerator, json.loads(text), verdict)
            for run, topology, profile, created, accelerator, text, verdict in rows
        ]

    def series(self) -> list[Series]:
        """Every variant's every metric in every run, the oldest run first."""
        runs = {run.id: run for run in self.runs()}
        means: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for *key, mean in self._connection.execute(
            "SELECT run, experiment, variant, metric, unit, direction, definition, mean"
            " FROM figures JOIN runs ON runs.id = run"
            " ORDER BY created, run, experiment, variant, metric, boot"
        ):
            means[tuple(key)].append(mean)
        return [
            Series(
                runs[run], experiment, variant, metric, unit, direction, definition, tuple(boots)
            )
            for (
                run,
                experiment,
                variant,
                metric,
                unit,
                direction,
                definition,
            ), boots in means.items()
        ]

    def findings(self) -> list[StoredFinding]:
        """Every gate's verdict in every run, the oldest run first."""
        rows = self._connection.execute(
            "SELECT run, experiment, gate, findings.verdict FROM findings"
            " JOIN runs ON runs.id = run ORDER BY created, run, experiment, gate"
        )
        return [StoredFinding(*row) for row in rows]


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The store in the file `path`, which is made if there is none.

    Raises InputError for a file that is damaged, none of ours, or of a newer lab; LabError where
    the disk is full or another process writes for too long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_S)
        connection.execute("PRAGMA foreign_keys = ON")
        _prepare(connection, path)
        yield Store(connection)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname in ("SQLITE_CANTOPEN", "SQLITE_READONLY"):
            raise _unusable(path, str(error)) from None
        raise LabError(
            f"cannot use the store of results: {error}",
            where=str(path),
            hint="make room or wait for the other process; the runs' own directories have it all",
        ) from None
    except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
        raise InputError(
            f"no store of results, or a damaged one: {error}",
            where=str(path),
            hint="move it away to begin a new one; the runs' own directories have it all",
        ) from None
    finally:
        if connection:
            connection.close()


def _unusable(path: Path, why: str) -> InputError:
    return InputError(
        f"cannot keep results here: {why}",
        where=str(path),
        hint="name a directory of your own in LAB_STATE_DIR",
    )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version > VERSION:
        raise InputError(
            f"results of format {version}; this lab reads up to {VERSION}",
            where=str(path),
            hint="use the lab that wrote it, or a newer one",
        )
    # A reader is not kept waiting by a writer. FULL, because in WAL mode NORMAL may lose the last
    # commits when power fails (sqlite.org/pragma.html#pragma_synchronous), and a sync a run is
    # cheap.
    Deadline(BUSY_S).poll(partial(_use_wal, connection), f"the other writers of {path}")
    connection.execute("PRAGMA synchronous = FULL")
    if version == 0:
        _create(connection, path)


def _use_wal(connection: sqlite3.Connection) -> bool:
    """False while others are in its way: for this one statement SQLite does not wait itself."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_BUSY":
            return False
        raise
    return True


def _create(connection: sqlite3.Connection, path: Path) -> None:
    """One transaction, so that a kill leaves no half schema; another process may be faster."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if _version(connection) == VERSION:
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise InputError(
                "a SQLite file, but no store of results",
                where=str(path),
                hint="move it away to begin a new one",
            )
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        places = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def _figures(report: Report) -> Iterator[tuple[object, ...]]:
    """A row for every metric of every variant in every boot, and every counter that has a gate."""
    for name, experiment in report.experiments.items():
        gated = {gate.metric for gate in experiment.gates.values()}
        for variant in experiment.variants:
            definition = _definition(experiment, variant)
            values: dict[tuple[str, int], list[float]] = defaultdict(list)
            described: dict[str, tuple[str, str]] = {}
            for trial in report.trials:
                if (trial.experiment, trial.variant) != (name, variant) or not trial.is_whole:
                    continue
                for metric in trial.metrics:
                    described[metric.name] = (metric.unit, metric.direction)
                    values[metric.name, trial.boot].append(metric.value)
                for counter in sorted(gated & trial.counters.keys() - described.keys()):
                    values[counter, trial.boot].append(trial.counters[counter])
            for (metric_name, boot), of_boot in values.items():
                mean = statistics.fmean(of_boot)
                if not math.isfinite(mean):
                    continue
                unit, direction = described.get(metric_name, ("", ""))
                yield (
                    report.manifest.id, name, variant, metric_name, boot, unit, direction,
                    definition, mean, len(of_boot),
                )  # fmt: skip


def _definition(experiment: Experiment, variant: str) -> str:
    asked = [
        experiment.workload.model_dump(mode="json"),
        experiment.variants[variant].model_dump(mode="json", exclude={"trials"}),
    ]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
