"""The benches as commands: mistakes are said, with the exit codes of `lab`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import agent, criteria
from tests.bench.command import run


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setenv("LAB_STATE_DIR", str(tmp_path / "state"))

    def call(main: Callable[[], None], *words: str) -> int:
        monkeypatch.setattr("sys.argv", ["bench", *words])
        with pytest.raises(SystemExit) as caught:
            run(main)
        assert isinstance(caught.value.code, int)
        return caught.value.code

    return call


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, 2, "cannot read: No such file"),
        ("", 4, "no trials"),
        ("no json\n", 2, ":1: not a trial"),
        (json.dumps({"variant": "fixed", "number": 1}) + "\n{}\n", 2, ":2: not a trial"),
    ],
)
def test_trials_that_cannot_be_judged_are_named(
    bench: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    code: int,
    said: str,
) -> None:
    path = tmp_path / "trials.jsonl"
    if text is not None:
        path.write_text(text)
    assert bench(criteria.main, "vioscsi", "--judge", str(path)) == code
    shown = capsys.readouterr().err
    assert shown.startswith(f"lab: {path}")
    assert said in shown


def test_a_lab_that_is_not_up_is_named(
    bench: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "trials.jsonl")
    assert bench(criteria.main, "hn", "--lab", "nonesuch", "--out", out) == 2
    assert "lab: no lab named nonesuch is up" in capsys.readouterr().err
    # The same command must not find a file of its own in its way.
    assert not Path(out).exists()
    assert bench(agent.main, "--only", "storage", "--lab", "nonesuch") == 2
    assert "lab: no lab named nonesuch is up" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named_before_measuring(
    bench: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "no" / "where")
    assert bench(criteria.main, "hn", "--out", out) == 2
    assert f"lab: {out}: cannot write" in capsys.readouterr().err
    assert bench(agent.main, "--out", out) == 2
    assert f"lab: {out}: cannot write" in capsys.readouterr().err
