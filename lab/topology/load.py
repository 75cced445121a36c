"""A topology file to a Topology whose every value knows its line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from lab.errors import InputError
from lab.topology.explain import explain
from lab.topology.model import Topology
from lab.topology.problem import Loc, Problem, TopologyError
from lab.topology.yaml_tree import Tree, parse_yaml

MAX_BYTES = 1024**2


@dataclass(frozen=True)
class LoadedTopology:
    """A topology with the file that it came from."""

    topology: Topology
    path: Path
    text: str
    tree: Tree = field(repr=False)

    def where(self, loc: Loc) -> str:
        """`("guests", "client", "vcpus")` -> `"topologies/default.yaml:6"`.

        The nearest thing around a value that stands nowhere in the file, such as a default.
        """
        return f"{self.path}:{self.tree.line(loc)}"


def load(path: Path) -> LoadedTopology:
    """Read the topology at `path`.

    Raises InputError: no such file, not text, not YAML, or not a topology; in the last case a
    TopologyError with every problem found.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError("no such topology", where=str(path), hint=_near(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read the topology: {reason}", where=str(path)) from None
    if len(data) > MAX_BYTES:
        raise TopologyError([Problem(f"{path}:1", "a topology is at most 1 MiB")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8 text: byte 0x{data[error.start]:02x}"
        raise TopologyError([Problem(f"{path}:{line}", message, "save it as UTF-8")]) from None
    return parse(text, path)


def parse(text: str, path: Path) -> LoadedTopology:
    """The topology that `text` describes; `path` is for messages only. Raises TopologyError."""
    tree = parse_yaml(text, path)
    if not isinstance(tree.data, Mapping):
        found = "is empty" if tree.data is None else "is no mapping (key: value)"
        hint = "begin with `name:` and `guests:`"
        raise TopologyError([Problem(f"{path}:1", f"the topology {found}", hint)])
    try:
        topology = Topology.model_validate(tree.data)
    except ValidationError as error:
        problems = sorted(explain(error), key=lambda problem: tree.line(problem[0]))
        raise TopologyError(
            Problem(f"{path}:{tree.line(loc)}", message, hint) for loc, message, hint in problems
        ) from None
    return LoadedTopology(topology, path, text, tree)


def _near(path: Path) -> str | None:
    """The topologies that stand where `path` was looked for, the nearest name first."""
    try:
        names = sorted(each.name for each in path.parent.glob("*.yaml"))
    except (OSError, ValueError):
        return None
    if near := difflib.get_close_matches(path.name, names, n=1):
        return f"did you mean {path.with_name(near[0])}?"
    return f"{path.parent} has {', '.join(names)}" if names else None
