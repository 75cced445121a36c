"""The editor's schema and the loader agree about files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from lab.topology.load import parse
from lab.topology.problem import TopologyError
from lab.topology.schema import schema

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(schema())


class EditorLoader(yaml.SafeLoader):
    """YAML as editors read it, by the 1.2 core schema: `on` is text and MACs are no numbers."""

    yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in resolvers if tag.endswith(("null", "merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


for _name, _pattern, _first in [
    ("bool", "^(true|false)$", "tf"),
    ("int", "^[0-9]+$", "0123456789"),
    ("float", r"^[0-9]+\.[0-9]+$", "0123456789"),
]:
    EditorLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(_pattern), list(_first)
    )


def valid(text: str) -> bool:
    return VALIDATOR.is_valid(yaml.load(text, EditorLoader))


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "topologies").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_shipped_topologies_validate(path: Path) -> None:
    VALIDATOR.validate(yaml.load(path.read_text(), EditorLoader))


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ("memory: 1GiB", True),
        ("memory: 1.5 GiB", True),
        ("memory: 1GB", False),
        ("memory: 1073741824", False),
        ("disks: {d: {size: 4KiB}}", True),
        ("disks: {d: {}}", False),
        ("disks: {Data: {size: 4KiB}}", False),
        ("disks: {d: {size: 4KiB, aio: uring}}", False),
        ("kernel: 6.12", True),
        ("kernel: '6.12'", True),
        ("vcpus: 2", True),
        ("vcpus: 65", False),
        ("vcpu: 2", False),
        ("image: ../x", False),
        ("nics: {n: {segment: s, mac: 12:34:56:10:20:30}}", True),
        ("nics: {n: {segment: s, mtu: 100}}", False),
        ("nics: {n: {segment: s}}\n    rdma: {r: {nic: n, mtu: 1024}}", True),
        ("nics: {n: {segment: s}}\n    rdma: {r: {nic: n, mtu: 1000}}", False),
    ],
)
def test_schema_and_loader_agree(body: str, good: bool) -> None:
    text = f"name: t\nguests:\n  a:\n    {body}\n"
    assert valid(text) is good
    try:
        parse(text, Path("t.yaml"))
        loads = True
    except TopologyError:
        loads = False
    assert loads is good


def test_rates_carry_units() -> None:
    assert valid("name: t\nguests: {a: {}}\nsegments: {s: {rate: 2.5Gbit}}")
    assert not valid("name: t\nguests: {a: {}}\nsegments: {s: {rate: 1000}}")


def test_defaults_are_as_one_would_write_them() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "default" in node:
                rules = {key: value for key, value in node.items() if key != "default"}
                root = {"$defs": schema()["$defs"], **rules}
                Draft202012Validator(root).validate(node["default"])
            for value in node.values():
                walk(value)

    walk(schema())
