"""`lab report`: the files of a run made again, and its samples judged by edited gates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab import cli
from lab.errors import Exit
from lab.guest.agent_client import Metric
from lab.results.run_directory import Boot, Manifest, RunDirectory
from lab.results.trial import Trial

TOPOLOGY = """\
name: mine
guests:
  client: {image: debian-12}
experiments:
  inside:
    workload: {engine: udp, guest: client, peer: client}
    variants: {main: {preset: main}, latest: {preset: latest}}
    boots: 3
    gates:
      rps: {metric: rps, variant: latest, baseline: main, direction: higher, effect: 15%}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three boots in which `latest` is some 30 % faster."""
    manifest = Manifest(
        id="mine-1",
        topology="mine",
        source="mine.yaml",
        profile="full",
        seed=1,
        created="2026-12-07T09:00:00+00:00",
        command="lab validate mine.yaml --profile full --seed 1",
        accelerator="tcg",
        fingerprint={"qemu": "7.2"},
    )
    made = RunDirectory.create(tmp_path / "mine-1", manifest, TOPOLOGY)
    for boot in (1, 2, 3):
        started = f"2026-12-07T09:0{boot}:00+00:00"
        made.append_boot(Boot(boot, boot, "", started))
        for variant, rps in (("main", 1000.0 + boot), ("latest", 1300.0 + 2 * boot)):
            metrics = (Metric("rps", "1/s", "higher", rps),)
            made.append_trial(
                Trial("inside", variant, boot, boot, 1, started, 4.0, metrics, fidelity="native")
            )
    return made.path


def lab(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["lab", *words])
    return cli.run_command_line()


def test_it_judges_and_writes(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(monkeypatch, "report", str(run)) == Exit.OK
    told = capsys.readouterr().out
    assert "verdict: pass" in told
    for name in ("report.html", "report.json", "report.junit.xml"):
        assert str(run / name) in told
        assert (run / name).is_file()


def test_edited_gates_judge_the_same_samples(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(TOPOLOGY.replace("15%", "60%"))
    words = ("report", str(run), "--topology", str(edited), "--json")
    assert lab(monkeypatch, *words) == Exit.FAILED
    assert json.loads(capsys.readouterr().out)["verdict"] == "fail"
    assert json.loads((run / "report.json").read_text())["verdict"] == "fail"


def test_what_is_no_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(monkeypatch, "report", str(tmp_path)) == Exit.BAD_INPUT
    assert f"{tmp_path}/run.json: no run" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_topology_that_cannot_be_writes_nothing(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(TOPOLOGY.replace("variant: latest", "variant: newest"))
    words = ("report", str(run), "--topology", str(edited))
    assert lab(monkeypatch, *words) == Exit.BAD_INPUT
    assert f"{edited}:" in capsys.readouterr().err
    assert not (run / "report.html").exists()
