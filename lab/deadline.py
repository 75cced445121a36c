"""One deadline, passed down: every wait in the lab ends by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import LabError

T = TypeVar("T")


class DeadlineExceeded(LabError):
    """A wait ran out of time."""


class Deadline:
    """A point in monotonic time by which nested waits must all have ended."""

    def __init__(self, seconds: float) -> None:
        self.start_s = time.monotonic()
        self.end_s = self.start_s + seconds

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.start_s

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.end_s - time.monotonic())

    @property
    def expired(self) -> bool:
        return self.remaining_s == 0.0

    def within(self, seconds: float) -> Deadline:
        """A nested deadline: `seconds` from now, but never later than this one."""
        return Deadline(min(seconds, self.remaining_s))

    def check(self, what: str, *, hint: str | None = None) -> None:
        """Raise DeadlineExceeded, naming `what` was waited for, once time is up."""
        if self.expired:
            raise DeadlineExceeded(
                f"timed out waiting for {what}", hint=hint, elapsed_s=self.elapsed_s
            )

    def poll(self, attempt: Callable[[], T | None], what: str, *, interval_s: float = 0.05) -> T:
        """Call `attempt` until it returns something true; its value, or DeadlineExceeded."""
        while True:
            value = attempt()
            if value:
                return value
            self.check(what)
            time.sleep(min(interval_s, self.remaining_s))
