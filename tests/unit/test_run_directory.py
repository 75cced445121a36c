"""A run on disk: what is there after a kill, a full disk, damage, and another lab's format."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import InputError, LabError
from lab.guest.agent_client import Metric
from lab.results.run_directory import Boot, Manifest, RunDirectory
from lab.results.trial import Trial

MANIFEST = Manifest(
    id="t-1", topology="t", source="t.yaml", profile="quick", seed=1, created="2026-12-07",
    command="lab validate t.yaml", accelerator="tcg", fingerprint={"kernel": "6"}, only=("e",),
)  # fmt: skip
TRIAL = Trial(
    "e", "a", 1, 1, 1, "2026-12-07", 1.5,
    metrics=(Metric("rps", "1/s", "higher", 10.0),), samples={"latency_us": (1, 2)},
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", MANIFEST, "name: t\n")


def test_what_was_written_is_read_again(run: RunDirectory) -> None:
    assert run.manifest == MANIFEST
    with run.writing():
        run.append_boot(Boot(1, 1, "", "now"))
        run.append_trial(TRIAL)
        run.append_boot(Boot(1, 1, "", "now", elapsed_s=3.0, error="gone"))
    (trial,) = run.trials()
    assert trial.metrics == TRIAL.metrics
    assert list(trial.samples["latency_us"]) == [1, 2]
    (boot,) = run.boots()
    assert (boot.elapsed_s, boot.error) == (3.0, "gone")


def test_a_second_run_does_not_overwrite_the_first(run: RunDirectory) -> None:
    with pytest.raises(InputError, match="there is a run already"):
        RunDirectory.create(run.path, MANIFEST, "")


def test_a_torn_last_line_is_dropped_and_cut_off(run: RunDirectory) -> None:
    path = run.path / "trials.jsonl"
    with run.writing():
        run.append_trial(TRIAL)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert len(run.trials()) == 1
    with run.writing():
        run.append_trial(replace(TRIAL, number=2))
    assert [trial.number for trial in run.trials()] == [1, 2]


DAMAGE = [
    ("boot", None),
    ("counters", {"x": "many"}),
    ("samples", 1),
    ("histograms", []),
    ("metrics", [{"name": "rps", "unit": "", "direction": "higher", "value": "fast"}]),
    ("metrics", [{"name": "rps", "unit": "", "direction": "higher", "value": float("nan")}]),
]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"experiment": "e"}', "null", "\x00\x00"]
    + [json.dumps({**TRIAL.as_dict(), key: value}) for key, value in DAMAGE],
)
def test_other_damage_is_named_with_its_line(run: RunDirectory, line: str) -> None:
    with run.writing():
        run.append_trial(TRIAL)
    with (run.path / "trials.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match=r"trials\.jsonl:2: a damaged result"):
        run.trials()


def test_the_run_of_a_newer_lab_is_refused(run: RunDirectory) -> None:
    path = run.path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(InputError, match="format 99"):
        _ = run.manifest


def test_a_damaged_boot_and_manifest_are_named(run: RunDirectory) -> None:
    (run.path / "boots.jsonl").write_text('{"number": {}}\n')
    with pytest.raises(InputError, match=r"boots\.jsonl:1: a damaged result: number"):
        run.boots()
    (run.path / "run.json").write_text(json.dumps({"format": 1, "id": 1e308}))
    with pytest.raises(InputError, match="not a run's manifest: id"):
        _ = run.manifest


def test_no_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run"):
        _ = RunDirectory(tmp_path).manifest


def test_one_process_writes_at_a_time(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.results.run_directory.LOCK_S", 0.1)
    with run.writing(), pytest.raises(LabError, match="is locked by"), run.writing():
        pass


def test_a_full_disk_loses_nothing_that_was_there(run: RunDirectory) -> None:
    """RLIMIT_FSIZE stands for a disk that takes a part of the line only."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tests.unit.test_run_directory import TRIAL, RunDirectory\n"
        "from lab.results.run_directory import CannotWrite\n"
        "from dataclasses import replace\n"
        "run = RunDirectory(Path(sys.argv[1]))\n"
        "run.append_trial(TRIAL)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n"
        "try:\n"
        "    run.append_trial(replace(TRIAL, number=2))\n"
        "except CannotWrite as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, run.path], capture_output=True, text=True, check=True
    )
    assert "--resume" in done.stdout
    assert [trial.number for trial in run.trials()] == [1]
    assert (run.path / "trials.jsonl").read_bytes().endswith(b"\n")


def test_every_finished_line_survives_sigkill(run: RunDirectory) -> None:
    code = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from tests.unit.test_run_directory import TRIAL, RunDirectory\n"
        "run = RunDirectory(Path(sys.argv[1]))\n"
        "big = replace(TRIAL, samples={'latency_us': tuple(range(20000))})\n"
        "with run.writing():\n"
        "    number = len(run.trials())\n"
        "    while True:\n"
        "        number += 1\n"
        "        run.append_trial(replace(big, number=number))\n"
        "        print(number, flush=True)\n"
    )
    said = 0
    for point in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", code, run.path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout
        assert writer.stdout.readline()
        time.sleep(0.01 * point)
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        numbers = [trial.number for trial in run.trials()]
        assert numbers == list(range(1, len(numbers) + 1))
        said = max([said, *map(int, rest)])
        assert len(numbers) >= said
