"""The errors a user sees: what went wrong, where, after how long, and what to do next."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every `lab` command."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    INCONCLUSIVE = 3
    NOTHING_MEASURED = 4
    BROKEN_LAB = 5


class LabError(Exception):
    """Something the lab could not do; by default the lab (or its host) is at fault.

    `where` is a place a user can open or look at (file:line, guest, path), `hint` the next
    step, `detail` evidence worth reading (the tail of a log), `elapsed_s` how long it took.
    """

    exit_code = Exit.BROKEN_LAB

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        detail: str | None = None,
        elapsed_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.detail = detail
        self.elapsed_s = elapsed_s

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        if self.elapsed_s is not None:
            head += f" (after {self.elapsed_s:.1f} s)"
        lines = [head]
        if self.detail:
            lines += [f"  | {line}" for line in self.detail.rstrip().splitlines()]
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return "\n".join(lines)


class InputError(LabError):
    """The user's input is at fault: nothing was created."""

    exit_code = Exit.BAD_INPUT


class NothingMeasured(LabError):
    """The run ended without a single figure."""

    exit_code = Exit.NOTHING_MEASURED
