"""`lab validate` as a user runs it: verdicts, and what is left of a run that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.deadline import Deadline
from lab.providers.libvirt.provider import qemu_pids
from lab.record import records
from lab.results.run_directory import RunDirectory
from tests.e2e.support import COMMAND_S, LAB, ROOT, lab_command, wait_until_gone

NoTraces = Callable[[], None]
KILLS = 10
KILL_EVERY_S = 1.8

TOPOLOGY = """\
name: tiny
guests:
  one: {memory: 512MiB, vcpus: 2}
experiments:
  loopback:
    workload: {engine: udp, runtime_s: 0.3, idle_s: 0, null_s: 0.05}
    variants:
      queued: {preset: main}
      inline: {preset: latest}
      four: {preset: latest, topology: {guests: {one: {memory: 640MiB}}}}
    trials: 2
    boots: 2
    gates:
      no-queue: {metric: sends_queued_per_request, variant: inline, each: "== 0", fails_on: queued}
      rate: {metric: rps, variant: inline, baseline: queued, report: true}
      memory: {metric: rps, variant: four, baseline: inline, report: true}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TOPOLOGY)
    return path


def runs_in(path: Path) -> list[Path]:
    return sorted(each.parent for each in path.glob("*/run.json"))


def has_begun_boot(runs: Path, number: int) -> bool:
    return any(len(RunDirectory(run).boots()) >= number for run in runs_in(runs))


def verdicts(run: Path) -> Any:
    return json.loads((run / "report.json").read_text())["findings"]


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A run from its beginning to its end: its directory, and what was said."""
    path = tmp_path_factory.mktemp("validate")
    (path / "tiny.yaml").write_text(TOPOLOGY)
    done = lab_command(
        "validate", str(path / "tiny.yaml"), "--runs", str(path / "runs"), "--seed", "5"
    )
    (run,) = runs_in(path / "runs")
    return run, done


def test_a_run_ends_in_verdicts_with_every_sample_kept(
    whole: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    path, done = whole
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no-queue" in done.stdout and "pass" in done.stdout
    run = RunDirectory(path)
    trials = run.trials()
    assert len(trials) == 2 * 2 * 3
    assert all(trial.is_whole and trial.samples["latency_us"] for trial in trials)
    assert all(trial.fidelity == "model" and trial.layer and trial.harness for trial in trials)
    assert all({"steal", "busy"} <= trial.noise.keys() for trial in trials)
    # A variant that changes the guests has boots of its own, A B B A.
    assert [boot.group for boot in run.boots()] == ["", "loopback/four", "loopback/four", ""]
    assert {trial.boot for trial in trials if trial.variant == "four"} == {2, 3}
    for boot in run.boots():
        assert "Linux version" in (run.log_directory(boot.number) / "one.dmesg.log").read_text()
        assert (run.log_directory(boot.number) / "one.console.log").stat().st_size
    for name in ("report.html", "report.json", "report.junit.xml"):
        assert (path / name).stat().st_size
    assert run.manifest.fingerprint["accelerator"] == run.manifest.accelerator


def test_judging_again_comes_to_the_same_and_follows_edited_gates(
    whole: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    path, _ = whole
    again = lab_command("judge", str(path))
    assert again.returncode == 0, again.stderr
    edited = tmp_path / "edited.yaml"
    edited.write_text(TOPOLOGY.replace('each: "== 0"', 'each: ">= 1"'))
    refuted = lab_command("judge", str(path), "--topology", str(edited))
    assert refuted.returncode == 1, refuted.stdout + refuted.stderr


def test_a_metric_that_nothing_measures_is_named_with_its_line(
    tiny: Path, tmp_path: Path, no_traces: NoTraces
) -> None:
    tiny.write_text(TOPOLOGY.replace("rate: {metric: rps", "rate: {metric: rpm"))
    done = lab_command(
        "validate", str(tiny), "--runs", str(tmp_path / "runs"), "--only", "loopback"
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "tiny.yaml:15: gate `rate` is about `rpm`" in done.stderr
    assert "did you mean `rps`?" in done.stderr
    (run,) = runs_in(tmp_path / "runs")
    assert RunDirectory(run).trials(), "what was measured is lost"
    no_traces()


def test_killed_at_ten_points_it_resumes_and_loses_nothing(
    tiny: Path, tmp_path: Path, no_traces: NoTraces
) -> None:
    """SIGKILL again and again; each time the run goes on from what is there."""
    runs = tmp_path / "runs"
    words = ["validate", str(tiny), "--runs", str(runs), "--seed", "5"]
    kept: list[Any] = []
    boots = 0
    for kill in range(KILLS):
        command = subprocess.Popen(
            [LAB, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        Deadline(COMMAND_S).poll(partial(has_begun_boot, runs, boots + 1), "the next boot to begin")
        # From its first moment to its second round of trials.
        time.sleep(KILL_EVERY_S * kill)
        command.send_signal(signal.SIGKILL)
        command.wait()
        (run,) = runs_in(runs)
        boots = len(RunDirectory(run).boots())
        trials = RunDirectory(run).trials()
        assert trials[: len(kept)] == kept, "a finished trial is lost or changed"
        kept = trials
        wait_until_gone(no_traces, 60)
        words = ["validate", "--resume", str(run)]
    assert kept, "no trial was finished between the kills"
    done = lab_command(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = RunDirectory(run).trials()
    assert trials[: len(kept)] == kept
    # What was killed may be run twice; nothing that was planned is missing.
    planned = {(boot, variant, n) for boot in (1, 2) for variant in VARIANTS for n in (1, 2)}
    assert {(each.planned_boot, each.variant, each.number) for each in trials} == planned
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "report.json").unlink()
    assert lab_command("judge", str(copy)).returncode == 0
    assert lab_command("report", str(copy)).returncode == 0
    assert verdicts(copy) == verdicts(run)


def test_a_guest_that_is_lost_costs_its_boot_and_no_sample(
    tiny: Path, tmp_path: Path, no_traces: NoTraces
) -> None:
    runs = tmp_path / "runs"
    words = ["validate", str(tiny), "--runs", str(runs), "--profile", "full"]
    command = subprocess.Popen(
        [LAB, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    Deadline(COMMAND_S).poll(
        lambda: any(RunDirectory(run).trials() for run in runs_in(runs)), "the first trial"
    )
    (lab,) = (each for each in records() if each.identity.name.startswith("tiny-"))
    (domain,) = lab.domains
    (pid,) = qemu_pids(domain)
    os.kill(pid, signal.SIGKILL)
    _, said = command.communicate(timeout=COMMAND_S)
    assert command.returncode == 0, said
    (path,) = runs_in(runs)
    run = RunDirectory(path)
    broken, *others = run.boots()
    assert broken.error and "guest one" in broken.error
    assert not any(boot.error for boot in others)
    # The round that was cut short was run again, in a boot of its own.
    whole = {
        (each.planned_boot, each.variant, each.number) for each in run.trials() if each.is_whole
    }
    assert whole == {(boot, variant, n) for boot in (1, 2) for variant in VARIANTS for n in (1, 2)}
    assert (run.log_directory(broken.number) / "one.console.log").stat().st_size
    assert "1 of them broken" in lab_command("judge", str(path)).stdout
    no_traces()


VARIANTS = ("queued", "inline", "four")


def test_pytest_runs_the_gates_of_a_topology(tiny: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [LAB.parent / "pytest", "-q", "-rA", tiny, "--rootdir", tmp_path,
         "--runs", tmp_path / "runs", "-k", "no-queue or rate"],
        cwd=ROOT, capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tiny.yaml::loopback::no-queue" in done.stdout
    assert "2 passed, 1 deselected" in done.stdout
