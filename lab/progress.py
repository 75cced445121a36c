"""Progress of long work: spinners on a terminal, plain timestamped lines anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Step:
    """One step under way; `note` says what it is doing now."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self.title = title
        self.start_s = time.monotonic()
        self.doing = ""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.start_s

    def note(self, doing: str) -> None:
        if doing != self.doing:
            self.doing = doing
            self._progress.show(self)


class Progress:
    """Reports steps on stderr, from any thread. stdout stays free for results."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._lock = threading.Lock()
        self._status = None
        self._running: list[Step] = []
        if self._stream.isatty() and not quiet:
            from rich.console import Console

            self._status = Console(file=self._stream).status("")

    @property
    def is_live(self) -> bool:
        """Whether what a step is doing is replaced by what it does next, and may be detailed."""
        return self._status is not None

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Announce `title`, and say how long it took or that it failed."""
        step = Step(self, title)
        with self._lock:
            self._running.append(step)
        self.show(step)
        try:
            yield step
        except BaseException:
            self._finish(step, "failed")
            raise
        self._finish(step, "done")

    def say(self, line: str) -> None:
        """One line of lasting news."""
        if self._quiet:
            return
        with self._lock:
            print(line, file=self._stream, flush=True)

    def show(self, step: Step) -> None:
        if self._quiet:
            return
        with self._lock:
            if self._status is not None:
                self._status.update("  ".join(_describe(each) for each in self._running))
                self._status.start()
            elif step.doing:
                print(f"[{step.elapsed_s:6.1f} s] {_describe(step)}", file=self._stream, flush=True)

    def _finish(self, step: Step, outcome: str) -> None:
        with self._lock:
            self._running.remove(step)
            if self._quiet:
                return
            if self._status is not None and not self._running:
                self._status.stop()
            line = f"[{step.elapsed_s:6.1f} s] {step.title}: {outcome}"
            print(line, file=self._stream, flush=True)


def _describe(step: Step) -> str:
    return f"{step.title}: {step.doing}" if step.doing else step.title
