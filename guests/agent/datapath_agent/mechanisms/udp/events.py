"""A worker's event queue: epoll, a deque and an eventfd stand in for an I/O completion port.

Posting costs a system call each time, as PostQueuedCompletionStatus() does, and what was posted
runs in a later turn. Everything is edge-triggered: nothing has to be read to be armed again.
"""

from __future__ import annotations

import ctypes
import os
import select
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# As many completions as msquic's platform worker takes at a time.
_BATCH = 16
_RING = (1).to_bytes(8, "little")
_libc = ctypes.CDLL(None, use_errno=True)


def doorbell() -> int:
    """A new eventfd, to be made before the fork of those who ring it (os.eventfd needs 3.10)."""
    fd: int = _libc.eventfd(0, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return fd


def ring(doorbell_fd: int) -> None:
    os.write(doorbell_fd, _RING)


class EventQueue:
    """Runs the handlers of sockets that became readable, and what was posted."""

    def __init__(self, doorbell_fd: int) -> None:
        self.wakeups = 0
        self._doorbell_fd = doorbell_fd
        self._posted: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._from_outside: Callable[[], None] | None = None
        self.watch(doorbell_fd, self._run_posted)

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        """Call `handler` when something has arrived at `fd` since it was last called."""
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)

    def watch_doorbell(self, handler: Callable[[], None]) -> None:
        """Call `handler` when another process has rung."""
        self._from_outside = handler

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        """Run `function(argument)` in a later turn."""
        self._posted.append((function, argument))
        os.write(self._doorbell_fd, _RING)

    def turn(self, timeout_s: float) -> bool:
        """Wait for events and handle them; were there any?"""
        ready = self._epoll.poll(timeout_s, _BATCH)
        if not ready:
            return False
        self.wakeups += 1
        for fd, _ in ready:
            self._handlers[fd]()
        return True

    def _run_posted(self) -> None:
        # What these post is for a later turn, as is what no longer fits in this one.
        waiting = len(self._posted)
        for _ in range(min(waiting, _BATCH)):
            function, argument = self._posted.popleft()
            function(argument)
        if waiting > _BATCH:
            os.write(self._doorbell_fd, _RING)
        if self._from_outside:
            self._from_outside()
