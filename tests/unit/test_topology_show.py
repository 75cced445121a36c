"""Drawings of topologies against golden files; LAB_GOLDEN=write writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab.topology.lint import check
from lab.topology.load import load
from lab.topology.model import Guest, Topology
from lab.topology.show import mermaid, tree

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "topology"
SOURCES = [*sorted((ROOT / "topologies").glob("*.yaml")), GOLDEN / "everything.yaml"]


def assert_golden(path: Path, text: str) -> None:
    if os.environ.get("LAB_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_tree(source: Path) -> None:
    loaded = load(source)
    check(loaded, None)
    assert_golden(GOLDEN / f"{source.stem}.txt", tree(loaded.topology))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_mermaid(source: Path) -> None:
    assert_golden(GOLDEN / f"{source.stem}.mmd", mermaid(load(source).topology))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_mermaid_edges_join_nodes_that_exist_once(source: Path) -> None:
    lines = mermaid(load(source).topology).splitlines()
    nodes = [match[1] for line in lines if (match := re.match(r"\s+(\w+)[\[{]", line))]
    assert len(nodes) == len(set(nodes))
    edges = [line.split(" --- ") for line in lines if " --- " in line]
    assert edges
    assert {end.strip() for edge in edges for end in edge} <= set(nodes)


def test_mermaid_labels_cannot_break_out_of_their_quotes() -> None:
    # model_construct: not even a value that the model would refuse may break the syntax.
    guest = Guest.model_construct(image='x"]; <b> # &amp; `', kernel=None, cpu=None)
    text = mermaid(Topology.model_construct(name="t", guests={"a": guest}, segments={}))
    assert 'g0["a<br/>x#34;]; #60;b#62; #35; #38;amp; #96;, 1 vCPU' in text
