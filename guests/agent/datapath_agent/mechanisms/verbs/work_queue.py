"""The kernel's work queue, in threads: a list, last in first out, and a worker a processor.

After etc/kernel/work_queue.c of WinOFED: an insertion puts the entry at the head of the list and
wakes a task if one is idle; a task takes the head, runs it, and goes on while there are more.
"""

from __future__ import annotations

import _thread
from _queue import SimpleQueue
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datapath_agent.mechanisms.verbs.steps import Request


class WorkerDied(Exception):
    """A worker's own error: a mistake of this program, not of a transition."""


class WorkQueue:
    """Takes requests, makes the next step of each in a worker, and queues their completions.

    A step lets go of the GIL in its C call, so that as many are under way as there are workers.
    The caller is woken for a completion once no more than `low` entries are left: to be woken
    for each would cost more than most steps do, and gain nothing while the workers have work.
    """

    def __init__(self, workers: int, low: int) -> None:
        self.longest = 0
        self.failed: list[int] = []
        # How many steps began while that many were under way, themselves included.
        self.under_way = [0] * (workers + 1)
        self._workers = workers
        self._low = low
        self._entries: list[Request] = []
        # One token an entry: get() costs little where there is one, and is a wait otherwise.
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._completions: deque[Request] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._running: list[None] = []
        self._fault: BaseException | None = None
        for _ in range(workers):
            _thread.start_new_thread(self._work, ())

    def insert(self, request: Request) -> None:
        entries = self._entries
        entries.append(request)
        if len(entries) > self.longest:
            self.longest = len(entries)
        self._tokens.put(True)

    def take(self) -> Request:
        """The next completion. Raises WorkerDied when there will be none."""
        completions = self._completions
        while not completions:
            self._wake.get()
            if self._fault:
                raise WorkerDied(repr(self._fault)) from self._fault
        return completions.popleft()

    def close(self) -> None:
        """Let the workers go once the list is empty."""
        for _ in range(self._workers):
            self._tokens.put(False)

    def _work(self) -> None:
        # Looked up once: a worker that holds the GIL keeps the others from their next step.
        wait, entries, complete = self._tokens.get, self._entries, self._completions.append
        wake, low, running, under_way = self._wake.put, self._low, self._running, self.under_way
        try:
            while wait():
                request = entries.pop()
                running.append(None)  # atomic under the GIL, as is pop()
                under_way[len(running)] += 1
                status = request.pop()()
                running.pop()
                if status:
                    self.failed.append(status)
                complete(request)
                if len(entries) <= low:
                    wake(True)
        except BaseException as error:
            self._fault = error
            wake(True)
