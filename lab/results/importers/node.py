"""A value in a JSON document that knows its place, so that a fault in it can name that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

from lab.results.importers.source import Source
from lab.results.series import Better


@dataclass(frozen=True)
class Node:
    """`place` is the way from the top: `jobs[0].read`."""

    source: Source
    value: Any
    place: str = ""

    def __getitem__(self, name: str) -> Node:
        """The member `name` of an object; InputError if this is none, or has none."""
        found = self.get(name)
        if found is None:
            raise self.source.fault(f"expected `{self._below(name)}`, which is not there")
        return found

    def get(self, name: str) -> Node | None:
        if not isinstance(self.value, dict):
            raise self.source.fault(f"expected an object at `{self.place or 'the top'}`")
        if name not in self.value:
            return None
        return Node(self.source, self.value[name], self._below(name))

    def items(self) -> Iterator[tuple[str, Node]]:
        if not isinstance(self.value, dict):
            raise self.source.fault(f"expected an object at `{self.place or 'the top'}`")
        for name, value in self.value.items():
            yield name, Node(self.source, value, self._below(name))

    def elements(self) -> Iterator[Node]:
        if not isinstance(self.value, list):
            raise self.source.fault(f"expected a list at `{self.place}`")
        for index, value in enumerate(self.value):
            yield Node(self.source, value, f"{self.place}[{index}]")

    def number(self) -> float:
        """A finite number. Some writers quote theirs."""
        found = self.value
        try:
            value = float("nan" if isinstance(found, bool) else found)
        except (TypeError, ValueError, OverflowError):
            value = float("nan")
        if not isfinite(value):
            raise self.source.fault(f"{self.place}: expected a number, found {str(found)[:60]!r}")
        return value

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.source.fault(f"{self.place}: expected text, found {str(self.value)[:60]!r}")
        return self.value

    def direction(self) -> Better:
        match self.value:
            case "higher" | "lower" as found:
                return cast(Better, found)
            case _:
                raise self.source.fault(f"{self.place}: expected higher or lower")

    def _below(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def parse(source: Source, tool: str) -> Node:
    """The document in `source`, which a message of the tool may precede."""
    start = source.text.find("{")
    text = source.text[max(0, start) :]
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        before = source.text[:start] if start > 0 else ""
        raise source.fault(
            f"expected {tool}'s JSON: {error.msg}",
            line=before.count("\n") + error.lineno,
            column=error.colno,
            hint="the file may be cut off: the tool must have ended before it is copied",
        ) from None
    except (RecursionError, ValueError) as error:
        raise source.fault(f"expected {tool}'s JSON: {error}") from None
    # A message may follow, too, but not another run, which would be passed over.
    if "{" in text[end:]:
        raise source.fault(
            "expected one document, found another",
            line=source.text.count("\n", 0, max(0, start) + text.index("{", end)) + 1,
            hint="give every run a file of its own",
        )
    return Node(source, value)
