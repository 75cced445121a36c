"""`lab topology`: exit codes, and what stands on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.topology import app
from lab.topology.problem import TopologyError

DEFAULT = Path(__file__).parents[2] / "topologies" / "default.yaml"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.yaml"
    path.write_text("name: t\nguests:\n  a: {memory: 1MiB, root: {aio: native}}\n")
    return path


def test_validate_names_each_good_file() -> None:
    result = run("validate", DEFAULT, DEFAULT)
    assert result.exit_code == 0
    assert result.stdout == f"{DEFAULT}: ok\n" * 2


def test_validate_tells_the_problems_of_all_files(broken: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    result = run("validate", broken, DEFAULT, missing)
    assert isinstance(result.exception, TopologyError)
    assert result.exception.exit_code == 2
    lines = str(result.exception).splitlines()
    assert lines[0] == "3 problems"
    assert lines[1].startswith(f"{broken}:3: guest `a` cannot boot in 1MiB")
    assert lines[3].startswith(f"{missing}: no such topology (")
    assert result.stdout == ""


def test_validate_as_json(broken: Path) -> None:
    result = run("validate", broken, "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert answer["ok"] is False
    assert [problem["where"] for problem in answer["problems"]] == [f"{broken}:3"] * 2
    assert json.loads(run("validate", DEFAULT, "--json").stdout) == {"ok": True, "problems": []}


def test_show_draws_a_tree_or_mermaid(broken: Path) -> None:
    assert run("show", DEFAULT).stdout.startswith("default\n├── guest client")
    assert run("show", DEFAULT, "--format", "mermaid").stdout.startswith("flowchart LR\n")
    assert isinstance(run("show", broken).exception, TopologyError)


def test_schema_is_json() -> None:
    assert json.loads(run("schema").stdout)["title"] == "Topology"
