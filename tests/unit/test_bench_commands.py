"""The benches as commands: mistakes are said, with the exit codes of `lab`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import agent
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


def test_a_lab_that_is_not_up_is_named(
    bench: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(agent.main, "--only", "storage", "--lab", "nonesuch") == 2
    assert "lab: no lab named nonesuch is up" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named_before_measuring(
    bench: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "no" / "where")
    assert bench(agent.main, "--out", out) == 2
    assert f"lab: {out}: cannot write" in capsys.readouterr().err
