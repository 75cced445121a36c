"""What is wrong with a topology, each thing at its place in the file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from lab.errors import InputError

Loc = tuple[str | int, ...]
"""The way from the top of a file to a value: `("guests", "client", "vcpus")`."""

MAX_SHOWN = 50


@dataclass(frozen=True)
class Problem:
    """One fault: `where` is file:line, `message` what is wrong, `hint` what would be right."""

    where: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class TopologyError(InputError):
    """A topology that cannot be brought up, with every problem found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        # Aliases repeat a fault at every place that uses them.
        self.problems = tuple(dict.fromkeys(problems))
        lines = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if hidden := len(self.problems) - len(lines):
            lines.append(f"and {hidden} more problems")
        if len(self.problems) > 1:
            lines.insert(0, f"{len(self.problems)} problems")
        super().__init__("\n".join(lines))


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest of `known`, or with all of them when none is near."""
    names = list(known)
    if near := difflib.get_close_matches(word.lower(), names, n=1):
        return f"did you mean `{near[0]}`?"
    return f"known: {', '.join(names)}" if names else None


def quoted(value: object) -> str:
    """A user's value for a message: one line, bounded, whatever characters it has."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = str(value)
    if not text.isprintable() or "`" in text:
        text = ascii(text)
    return f"`{text[:57]}...`" if len(text) > 60 else f"`{text}`"
