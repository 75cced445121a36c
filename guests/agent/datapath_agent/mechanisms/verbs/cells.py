"""The cells of the change's table: how transitions are issued, by user mode and kernel mode.

Sync waits for each transition before the next one. Async keeps a window of queue pairs in flight
and takes completions from a queue in the issuing thread; the four steps of each queue pair stay
in order, as only its next one is ever issued.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import islice

from datapath_agent.mechanisms.verbs.ring import Ring
from datapath_agent.mechanisms.verbs.work_queue import WorkQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from datapath_agent.mechanisms.verbs.steps import Request


class Evidence:
    """What a cell saw of itself."""

    def __init__(self) -> None:
        # errno of each transition that failed
        self.failed: list[int] = []
        self.longest_queue = 0
        # Index n: transitions that began as the n-th one under way; empty where none can overlap.
        self.under_way: list[int] = []
        self.workers = 0

    def report(self) -> dict[str, Any]:
        return dict(self.__dict__)


def processors() -> int:
    return len(os.sched_getaffinity(0))


def uses_workers(policy: dict[str, Any]) -> bool:
    """`hinted`: the kernel is told that the caller will wait, and spares itself the work item."""
    return bool(
        policy["kernel"] == "workitem"
        or (policy["kernel"] == "hinted" and policy["user"] == "async")
    )


def drive(
    policy: dict[str, Any],
    window: int,
    requests: Iterator[Request],
    finish: Callable[[Request], Any],
) -> Evidence:
    """Take every request through its steps; `finish` is told of each that has none left."""
    evidence = Evidence()
    if policy["kernel"] == "io_wq":
        evidence.workers = processors()
        in_flight = window if policy["user"] == "async" else 1
        ring = Ring(in_flight, evidence.workers)
        try:
            _ringed(requests, finish, in_flight, ring, evidence.failed)
        finally:
            ring.close()
        return evidence
    if not uses_workers(policy):
        if policy["user"] == "sync":
            _sync_inline(requests, finish, evidence.failed)
        else:
            completions: deque[Request] = deque()
            submit = _inline(completions.append, evidence.failed)
            _windowed(requests, finish, window, submit, completions.popleft)
        return evidence
    evidence.workers = processors()
    queue = WorkQueue(evidence.workers, low=window // 2)
    try:
        if policy["user"] == "sync":
            _sync_queued(requests, finish, queue)
        else:
            _windowed(requests, finish, window, queue.insert, queue.take)
    finally:
        queue.close()
    evidence.failed = queue.failed
    evidence.longest_queue = queue.longest
    evidence.under_way = queue.under_way
    return evidence


def _sync_inline(
    requests: Iterator[Request], finish: Callable[[Request], Any], failed: list[int]
) -> None:
    """The caller makes the call itself."""
    for request in requests:
        while request:
            if status := request.pop()():
                failed.append(status)
        finish(request)


def _sync_queued(
    requests: Iterator[Request], finish: Callable[[Request], Any], queue: WorkQueue
) -> None:
    """The caller hands every transition to a work item, and waits for it."""
    insert, take = queue.insert, queue.take
    for request in requests:
        while request:
            insert(request)
            take()
        finish(request)


def _inline(complete: Callable[[Request], None], failed: list[int]) -> Callable[[Request], None]:
    """An overlapped call that has completed by the time it returns: its completion is posted."""

    def submit(request: Request) -> None:
        if status := request.pop()():
            failed.append(status)
        complete(request)

    return submit


def _windowed(
    requests: Iterator[Request],
    finish: Callable[[Request], Any],
    window: int,
    submit: Callable[[Request], None],
    take: Callable[[], Request],
) -> None:
    in_flight = 0
    for request in islice(requests, window):
        submit(request)
        in_flight += 1
    while in_flight:
        request = take()
        if request:
            submit(request)
            continue
        finish(request)
        following = next(requests, None)
        if following is None:
            in_flight -= 1
        else:
            submit(following)


def _ringed(
    requests: Iterator[Request],
    finish: Callable[[Request], Any],
    window: int,
    ring: Ring,
    failed: list[int],
) -> None:
    """The kernel's own workers make the calls; steps are requests for them."""
    live: dict[int, Request] = {}

    def push(request: Request) -> None:
        live[id(request)] = request
        ring.push(request.pop(), id(request))

    for request in islice(requests, window):
        push(request)
    while live:
        # As with the other work queue: no waking for each completion while there is work left.
        ring.enter(max(1, len(live) // 2))
        for tag, outcome in ring.take():
            request = live[tag]
            if outcome < 0:
                failed.append(-outcome)
            if request:
                push(request)
                continue
            del live[tag]
            finish(request)
            following = next(requests, None)
            if following is not None:
                push(following)
