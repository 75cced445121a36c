"""`lab validate` and `lab calibrate` without guests: what they refuse, and what A/A runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli import app
from lab.errors import Exit, InputError
from lab.experiments.aa import identical
from lab.experiments.findings import Verdict, worst
from lab.experiments.judging import experiments_of
from lab.results.run_directory import Manifest
from lab.topology.lint import check
from lab.topology.load import load

TOPOLOGIES = Path("topologies")


def refusal(*words: str) -> InputError:
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, InputError), result.output
    assert result.exception.exit_code is Exit.BAD_INPUT
    return result.exception


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give topologies, or a run with --resume"),
        (("t.yaml", "--resume", "runs/t"), "give topologies, or a run with --resume"),
        (("topologies/hn-transmit.yaml", "--profile", "fast"), "it is quick or full"),
        (("topologies/hn-transmit.yaml", "--accel", "xen"), "it is auto, kvm or tcg"),
        (("topologies/hn-transmit.yaml", "--only", "transmitt"), "no experiment `transmitt`"),
        (("topologies/hn-transmit.yaml", "--timeout", "soon"), "--timeout soon"),
        (("topologies/default.yaml",), "no experiments for the profile full"),
        (("topologies/nothing.yaml",), "no such topology"),
        (("--resume", "tests"), "no run"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(words: tuple[str, ...], said: str) -> None:
    assert said in str(refusal("validate", *words))


def test_one_bad_topology_keeps_all_from_being_run(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nguests: {a: {vcpus: 0}}\n")
    runs = tmp_path / "runs"
    said = refusal("validate", "topologies/hn-transmit.yaml", str(bad), "--runs", str(runs))
    assert "bad.yaml:2" in str(said)
    assert not runs.exists()


@pytest.mark.parametrize("path", sorted(TOPOLOGIES.glob("*.yaml")), ids=str)
@pytest.mark.parametrize("profile", ["quick", "full"])
def test_a_topology_of_identical_variants_can_be_run(path: Path, profile: str) -> None:
    loaded = load(path)
    same = identical(loaded, profile, boots=3, trials=4)  # type: ignore[arg-type]
    check(same, None)
    for name, experiment in same.topology.experiments.items():
        assert len(experiment.variants) == 1
        assert (experiment.boots, experiment.trials) == (3, 4)
        assert experiment.workload.engine == loaded.topology.experiments[name].workload.engine
    assert bool(same.topology.experiments) == bool(loaded.topology.experiments)


def test_a_sequential_run_may_go_on_to_twice_the_boots() -> None:
    loaded = load(TOPOLOGIES / "hn-transmit.yaml")
    manifest = Manifest("i", "t", "s", "full", 1, "", "", "tcg", {}, only=("transmit",))
    planned = loaded.topology.experiments["transmit"].boots
    assert {n: e.boots for n, e in experiments_of(manifest, loaded).items()} == {
        "transmit": planned
    }
    sequential = Manifest("i", "t", "s", "full", 1, "", "", "tcg", {}, sequential=True)
    assert experiments_of(sequential, loaded)["transmit"].boots == 2 * planned


@pytest.mark.parametrize(
    ("verdicts", "decides"),
    [
        ([], Verdict.NOTHING_MEASURED),
        ([Verdict.REPORTED], Verdict.REPORTED),
        ([Verdict.REPORTED, Verdict.PASS, Verdict.KNOWN], Verdict.PASS),
        ([Verdict.PASS, Verdict.INCONCLUSIVE], Verdict.INCONCLUSIVE),
        ([Verdict.INCONCLUSIVE, Verdict.NOTHING_MEASURED], Verdict.NOTHING_MEASURED),
        ([Verdict.NOTHING_MEASURED, Verdict.BROKEN_LAB], Verdict.BROKEN_LAB),
        ([Verdict.BROKEN_LAB, Verdict.FAIL, Verdict.PASS], Verdict.FAIL),
    ],
)
def test_the_worst_verdict_decides(verdicts: list[Verdict], decides: Verdict) -> None:
    assert worst(verdicts) is decides
