"""YAML text to plain data and the line of each value.

YAML's own guesses at types are not used: every scalar stays the text that was written and the
model decides what it means. So `kernel: 6.10` is not 6.1, a MAC is not a base 60 number, and
guests may be called `on` or `no`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.topology.problem import Loc, Problem, TopologyError, quoted

MAX_DEPTH = 32
MAX_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_NULL = f"{_TAG}null"
_TAGS = {
    yaml.MappingNode: {f"{_TAG}map"},
    yaml.SequenceNode: {f"{_TAG}seq"},
    yaml.ScalarNode: {f"{_TAG}str", _NULL, _MERGE},
}

_HINTS = {
    r"'\\t'": "indent with spaces",
    r"mapping values are not allowed here": "quote a value that has `: ` in it, or indent the key",
    r"undefined alias": "an anchor (&name) has to come before its alias (*name)",
}


@dataclass(frozen=True)
class Tree:
    """`data` is None, str, dict[str, ...] or list; `lines` counts from 1."""

    data: Any
    lines: Mapping[Loc, int]

    def line(self, loc: Loc) -> int:
        """The line of `loc`, or of the nearest thing around it that the file has."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc, 1)


def parse_yaml(text: str, path: Path) -> Tree:
    """Raises TopologyError with every problem that YAML itself lets one find."""
    if bad := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        message = f"the character U+{ord(bad[0]):04X} cannot stand in YAML"
        raise TopologyError([Problem(f"{path}:{line}", message)])
    loader = _Composer(text)
    try:
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise TopologyError([_syntax_problem(error, path)]) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML lets chr() and int() fail on escapes and directives that are out of range.
        place = f"{path}:{loader.line + 1}"
        raise TopologyError([Problem(place, f"not valid YAML: {error}")]) from None
    if node is None:
        return Tree(None, {})
    builder = _Builder(path)
    data = builder.build(node, ())
    if builder.problems:
        raise TopologyError(builder.problems)
    return Tree(data, builder.lines)


def _syntax_problem(error: yaml.MarkedYAMLError, path: Path) -> Problem:
    mark = error.problem_mark or error.context_mark
    fault = error.problem or error.context or "not understood"
    if error.problem and error.context:
        fault += f", {error.context}"
        if error.context_mark:
            fault += f" that begins on line {error.context_mark.line + 1}"
    hint = next((hint for pattern, hint in _HINTS.items() if re.search(pattern, fault)), None)
    return Problem(f"{path}:{mark.line + 1 if mark else 1}", f"not valid YAML: {fault}", hint)


class _Composer(yaml.SafeLoader):
    """Composes nodes to a bounded depth, telling nothing from the look of a scalar but null."""

    yaml_implicit_resolvers = {}
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self._depth >= MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {MAX_DEPTH} levels deep",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


_Composer.add_implicit_resolver(_MERGE, re.compile(r"^<<$"), ["<"])
_Composer.add_implicit_resolver(_NULL, re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])


_Entries = dict[str, tuple[yaml.ScalarNode, yaml.Node]]


class _Builder:
    """Data from nodes, with aliases copied out and merge keys applied."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[Loc, int] = {}
        self.problems: list[Problem] = []
        self._values = 0
        self._open: list[yaml.Node] = []

    def build(self, node: yaml.Node, loc: Loc) -> Any:
        self.lines.setdefault(loc, _line(node))
        self._enter(node)
        try:
            if node.tag not in _TAGS[type(node)]:
                tag = node.tag.replace(_TAG, "!!")
                self._add(node, f"the tag {quoted(tag)} means nothing here", "leave it out")
                return None
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, loc)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*loc, i)) for i, item in enumerate(node.value)]
            return None if node.tag == _NULL else self._text(node)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        data = {}
        for key, (key_node, value_node) in self._entries(node).items():
            self.lines[(*loc, key)] = _line(key_node)
            data[key] = self.build(value_node, (*loc, key))
        return data

    def _entries(self, node: yaml.MappingNode) -> _Entries:
        """Keys of `node` with their key and value nodes; its own stand before those it merges."""
        own: _Entries = {}
        merged: _Entries = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._add(key_node, "a key has to be a plain word")
                continue
            key = self._text(key_node)
            if key in own:
                first = _line(own[key][0])
                self._add(key_node, f"duplicate key {quoted(key)}, first on line {first}")
                continue
            own[key] = (key_node, value_node)
            if key_node.tag == _MERGE:
                merged = self._merged(value_node)
        return merged | {key: entry for key, entry in own.items() if entry[0].tag != _MERGE}

    def _merged(self, node: yaml.Node) -> _Entries:
        merged: _Entries = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                self._add(source, "`<<` merges a mapping or a list of mappings")
                continue
            self._enter(source)
            # Of several sources, the first that has a key gives it.
            merged = self._entries(source) | merged
            self._open.pop()
        return merged

    def _text(self, node: yaml.Node) -> str:
        text: str = node.value
        if re.search("[\ud800-\udfff]", text):
            self._add(node, f"half a surrogate pair in {quoted(text)}")
            return "?"
        return text

    def _enter(self, node: yaml.Node) -> None:
        """Count `node`, and refuse aliases without end or beyond reason."""
        if any(node is other for other in self._open):
            self._fail(node, "an alias refers to the very thing it is in")
        self._open.append(node)
        self._values += 1
        if self._values > MAX_VALUES or len(self._open) > 2 * MAX_DEPTH:
            self._fail(node, f"aliases expand the file to more than {MAX_VALUES} values")

    def _add(self, node: yaml.Node, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(f"{self.path}:{_line(node)}", message, hint))

    def _fail(self, node: yaml.Node, message: str) -> None:
        self._add(node, message)
        raise TopologyError(self.problems)


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1
