"""`lab judge`: a run that was kept is judged again, by its own gates and by edited ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.cli import run_command_line
from lab.guest.agent_client import Metric
from lab.results.run_directory import Boot, Manifest, RunDirectory
from lab.results.trial import Trial

TOPOLOGY = """\
name: t
guests:
  client: &guest
    nics: {lan0: {segment: lan}}
  server: *guest
segments: {lan: {}}
experiments:
  e:
    workload: {engine: udp, runtime_s: 1}
    variants:
      a: {preset: main}
      b: {preset: latest}
    boots: 3
    gates:
      gain: {metric: rps, variant: b, baseline: a, effect: 15%}
"""


def kept(path: Path, *, sequential: bool = False) -> Path:
    """A run of three boots in which b is 20 % above a."""
    manifest = Manifest(
        id="t-1",
        topology="t",
        source="t.yaml",
        profile="full",
        seed=1,
        created="2026-12-07T10:00:00+00:00",
        command="lab validate t.yaml",
        accelerator="tcg",
        fingerprint={},
        sequential=sequential,
    )
    run = RunDirectory.create(path, manifest, TOPOLOGY)
    with run.writing():
        for number, speed in enumerate((100.0, 90.0, 110.0), 1):
            run.append_boot(Boot(number, number, "", "2026-12-07T10:00:00+00:00"))
            for variant, times in (("a", 1.0), ("b", 1.2 + number / 1000)):
                metrics = (Metric("rps", "1/s", "higher", speed * times),)
                trial = Trial("e", variant, number, number, 1, "", 1.0, metrics=metrics)
                run.append_trial(trial)
    return path


def judge(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["lab", "judge", *map(str, words)])
    return run_command_line()


def test_a_run_is_judged_by_its_own_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(monkeypatch, kept(tmp_path / "run")) == 0
    assert "verdict: pass" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("effect", "code"), [("effect: 10%", 0), ("effect: 30%", 1), ("within: 20.2%", 3)]
)
def test_edited_gates_judge_the_same_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: str, code: int
) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(TOPOLOGY.replace("effect: 15%", effect))
    assert judge(monkeypatch, kept(tmp_path / "run"), "--topology", edited) == code


def test_a_metric_that_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(TOPOLOGY.replace("metric: rps", "metric: rpm"))
    assert judge(monkeypatch, kept(tmp_path / "run"), "--topology", edited) == 4


def test_a_sequential_run_pays_for_its_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of six boots: the second of five looks."""
    from datetime import date

    from lab.experiments.judging import report_of
    from lab.topology.load import load

    run = RunDirectory(kept(tmp_path / "run", sequential=True))
    (finding,) = report_of(run, load(run.topology_path), date(2026, 12, 7)).findings
    assert 0.997 < finding.confidence < 0.999


def test_no_run_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(monkeypatch, tmp_path) == 2
    assert "run.json" in capsys.readouterr().err


def test_a_gate_of_no_variant_is_bad_input_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(TOPOLOGY.replace("variant: b", "variant: c"))
    assert judge(monkeypatch, kept(tmp_path / "run"), "--topology", edited) == 2
    assert f"{edited}:15" in capsys.readouterr().err
