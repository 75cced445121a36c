"""Whatever a file holds, it is a topology or an InputError that points into the file."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lab.cli import run_command_line
from lab.errors import InputError
from lab.topology.lint import check
from lab.topology.load import load, parse
from lab.topology.show import mermaid, tree

ROOT = Path(__file__).parents[2]
SEEDS = [
    path.read_text()
    for path in (
        *sorted((ROOT / "topologies").glob("*.yaml")),
        ROOT / "tests" / "data" / "topology" / "everything.yaml",
    )
]
PLACE = re.compile(r"^t\.yaml:[1-9]\d*: .", re.MULTILINE)

ODD_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**30, max_value=10**40),
    st.floats(),
    st.text(max_size=30),
    st.dates(),
    st.binary(max_size=5),
    st.sampled_from(
        ["on", "off", "12:30:45", "0x10", "010", "1GB", "1e999", "~", "<<", "root", "lo", "data0"]
    ),
    st.sampled_from(["threads", "native", "virtio-scsi-pci", "e1000e", "siw", "lan", "shared"]),
)
ODD_VALUES = (
    ODD_SCALARS
    | st.lists(ODD_SCALARS, max_size=3)
    | st.dictionaries(st.just("a"), st.builds(dict), max_size=1)
)
PIECES = st.sampled_from(
    ["\t", "\n", ": ", "- ", "{", "}", "[", "]", "&a ", "*a ", "*guest", "<<: ", "!!int ", "!x ",
     "---\n", "...\n", "%YAML 1.1\n", '"', "'", "|\n", "? ", "\\", "\x00", "\x85", "\u2028", "#",
     "\ufeff", "é", "𝄞", "9" * 400, '"\\ud800"', '"\\UFFFFFFFF"', "on: ", "  "]
)  # fmt: skip


def judge(text: str) -> None:
    """A topology that draws, or an InputError with file:line; anything else fails the test."""
    try:
        loaded = parse(text, Path("t.yaml"))
        check(loaded, None)
    except InputError as error:
        assert PLACE.search(str(error)), str(error)
        event("refused")
    else:
        assert tree(loaded.topology)
        assert mermaid(loaded.topology)
        event("accepted")


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from places(node[key])


def mutated_tree(data: st.DataObject) -> str:
    # A copy without shared nodes: each guest can be broken by itself.
    tree_ = copy.deepcopy(yaml.safe_load(data.draw(st.sampled_from(SEEDS))))
    for _ in range(data.draw(st.integers(1, 4))):
        spots = list(places(tree_))
        if not spots:
            break
        container, key = data.draw(st.sampled_from(spots))
        match data.draw(st.sampled_from(["delete", "rename", "swap", "value", "add", "cycle"])):
            case "delete":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[data.draw(ODD_SCALARS)] = container.pop(key)
            case "swap":
                other, other_key = data.draw(st.sampled_from(spots))
                if key in _keys(container) and other_key in _keys(other):
                    mine = container[key]
                    container[key] = copy.deepcopy(other[other_key])
                    other[other_key] = copy.deepcopy(mine)
            case "value":
                container[key] = data.draw(ODD_VALUES)
            case "add" if isinstance(container, dict):
                container[data.draw(ODD_SCALARS)] = data.draw(ODD_VALUES)
            case "cycle":
                container[key] = container
                break
    return str(yaml.safe_dump(tree_, allow_unicode=data.draw(st.booleans()), sort_keys=False))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_trees(data: st.DataObject) -> None:
    judge(mutated_tree(data))


def _keys(container: Any) -> Any:
    return container if isinstance(container, dict) else range(len(container))


def mutated_text(data: st.DataObject) -> str:
    text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        until = min(len(text), at + data.draw(st.integers(0, 40)))
        match data.draw(st.sampled_from(["truncate", "cut", "insert", "repeat", "retag"])):
            case "truncate":
                text = text[:at]
            case "cut":
                text = text[:at] + text[until:]
            case "insert":
                text = text[:at] + data.draw(PIECES | st.text(max_size=8)) + text[at:]
            case "repeat":
                text = text[:until] + text[at:until] + text[until:]
            case "retag":
                tag = data.draw(st.sampled_from(["!!str", "!!int", "!!map", "!!binary", "!"]))
                text = re.sub(r": ", f": {tag} ", text, count=data.draw(st.integers(1, 5)))
    return text


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_text(data: st.DataObject) -> None:
    judge(mutated_text(data))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    judge(text)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(SEEDS), st.binary(min_size=1, max_size=4), st.floats(0, 1))
def test_broken_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str, junk: bytes, share: float
) -> None:
    monkeypatch.chdir(tmp_path)
    data = seed.encode()
    at = int(share * len(data))
    Path("t.yaml").write_bytes(data[:at] + junk + data[at:])
    try:
        check(load(Path("t.yaml")), None)
    except InputError as error:
        assert PLACE.search(str(error)), str(error)


def test_no_mutation_brings_the_command_line_down_or_anything_into_being(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `lab topology validate` refuses, `lab up` refuses too, before it makes anything."""
    monkeypatch.setenv("LAB_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "t.yaml"
    refused = 0

    def command(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["lab", *words])
        status = run_command_line()
        return status, capsys.readouterr().err

    @settings(
        max_examples=100,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.data())
    def mutate(data: st.DataObject) -> None:
        nonlocal refused
        text = data.draw(st.sampled_from([mutated_text, mutated_tree]))(data)
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        status, said = command("topology", "validate", str(file))
        assert status in (0, 2)
        if status == 2:
            refused += 1
            assert "Traceback" not in said
            status, said = command("up", str(file))
            assert status == 2
            assert "Traceback" not in said and "t.yaml" in said
        assert not (tmp_path / "state").exists()

    mutate()
    assert refused > 20
