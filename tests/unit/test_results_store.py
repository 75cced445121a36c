"""The store of results: what it keeps, what it refuses, and what a kill leaves of it."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import time
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from lab.errors import InputError
from lab.experiments.findings import Verdict
from lab.results.store import VERSION, opened
from tests.unit.stored_runs import experiment, report


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "results.sqlite"


def test_means_of_boots_and_verdicts_are_kept(path: Path) -> None:
    with opened(path) as store:
        store.record(report("a", [100.0, 110.0]))
    with opened(path) as store:
        by_metric = {each.metric: each for each in store.series()}
        assert by_metric["iops"].boots == (100.0, 110.0)
        assert (by_metric["iops"].unit, by_metric["iops"].direction) == ("1/s", "higher")
        assert by_metric["iops"].run.fingerprint == {"kernel": "6.12", "qemu": "7.2"}
        # Counters only where a gate is on them.
        assert by_metric["kicks"].boots == (5.0, 5.0)
        assert set(by_metric) == {"iops", "kicks"}
        assert [(each.gate, each.verdict) for each in store.findings()] == [("kicks", "pass")]


def test_a_run_is_there_once_as_it_was_judged_last(path: Path) -> None:
    with opened(path) as store:
        store.record(report("a", [100.0, 110.0]))
        store.record(report("b", [1.0]))
        store.record(report("a", [100.0, 110.0, 120.0], verdict=Verdict.FAIL))
        assert [run.id for run in store.runs()] == ["a", "b"]
        assert [each.boots for each in store.series() if each.metric == "iops"] == [
            (100.0, 110.0, 120.0),
            (1.0,),
        ]
        assert [each.verdict for each in store.findings()] == ["fail", "pass"]


def test_trials_that_failed_and_figures_that_are_none_are_left_out(path: Path) -> None:
    with opened(path) as store:
        run = report("a", [float("nan"), 7.0, 9.0])
        failed = replace(run.trials[2], error="the peer is gone")
        store.record(replace(run, trials=(*run.trials[:2], failed)))
        assert [each.boots for each in store.series() if each.metric == "iops"] == [(7.0,)]


def test_another_definition_of_a_variant_is_told_apart(path: Path) -> None:
    with opened(path) as store:
        store.record(report("a", [1.0]))
        store.record(report("b", [1.0], of=experiment(submitters=8)))
        store.record(report("c", [1.0]))
        first, second, third = (e.definition for e in store.series() if e.metric == "iops")
        assert first == third != second


def test_a_newer_store_is_refused_by_name_and_version(path: Path) -> None:
    with opened(path):
        pass
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(InputError, match=f"format {VERSION + 1}.*up to {VERSION}") as caught:
        opened(path).__enter__()
    assert caught.value.where == str(path)
    assert caught.value.hint


@pytest.mark.parametrize("damage", ["text", "torn"])
def test_a_damaged_file_is_named_with_what_to_do(path: Path, damage: str) -> None:
    with opened(path) as store:
        for number in range(20):
            store.record(report(f"run{number}", [1.0] * 20))
    whole = path.read_bytes()
    path.write_bytes(b"no database at all " * 100 if damage == "text" else whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged") as caught, opened(path) as store:
        store.series()
    assert caught.value.where == str(path)
    assert caught.value.hint and "move it away" in caught.value.hint


def test_somebody_elses_database_is_not_written_into(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(InputError, match="no store of results"):
        opened(path).__enter__()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "results.sqlite", tmp_path):
        with pytest.raises(InputError, match="cannot keep results here"):
            opened(path).__enter__()


def _record_one(path: Path, name: str, together: Barrier) -> None:
    together.wait()
    with opened(path) as store:
        store.record(report(name, [1.0]))


def test_several_processes_may_make_the_store_at_once(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for attempt in range(20):
        path = tmp_path / str(attempt) / "results.sqlite"
        together = fork.Barrier(5)
        writers = [
            fork.Process(target=_record_one, args=(path, f"run{n}", together)) for n in range(5)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(30)
        assert [writer.exitcode for writer in writers] == [0] * 5
        with opened(path) as store:
            assert len(store.runs()) == 5


def _write_for_ever(path: Path, prefix: str, committed: int) -> None:
    for number in range(1_000_000):
        with opened(path) as store:
            store.record(report(f"{prefix}-{number:06}", [float(number)] * 30))
        os.write(committed, f"{prefix}-{number:06}\n".encode())


def test_a_kill_at_any_point_loses_nothing_that_was_committed(path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    committed: list[str] = []
    for kill in range(10):
        read, write = os.pipe()
        writer = fork.Process(target=_write_for_ever, args=(path, str(kill), write))
        writer.start()
        os.close(write)
        time.sleep(0.05 + random.random() * 0.15)
        assert writer.pid
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(10)
        with os.fdopen(read) as said:
            committed += said.read().split()
    with opened(path) as store:
        kept = {each.run.id: each.boots for each in store.series() if each.metric == "iops"}
    assert len(committed) >= 10
    assert set(committed) <= set(kept)
    assert all(len(boots) == 30 for boots in kept.values())
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
