"""A submitter: keeps its slots in flight on its queue, and completes whatever the device has used.

As on a CPU that takes the queue's interrupt, whoever finds completions finishes them all, and
wakes the owners of those that are not its own.
"""

from __future__ import annotations

import select
import struct
import time

from datapath_agent.mechanisms.vring.completion import Finished, make_complete
from datapath_agent.mechanisms.vring.driver import Tally, make_send
from datapath_agent.mechanisms.vring.memory import (
    DONE,
    FREE,
    HALTED,
    IN_FLIGHT,
    INDEX_MASK,
    LAST_USED,
    PENDING_HEAD,
    PENDING_TAIL,
    RESET,
    STOPPING,
    USED_IDX,
    Memory,
    Queue,
    quiet,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.mechanisms.vring.load import DiskLoad, NullLoad
    from datapath_agent.team import Member

_LOOK_S = 0.1
# StorPortBusy(adapter, 10): nothing more is submitted until that many requests have completed.
BUSY_UNTIL_COMPLETED = 10
_TRACE = struct.Struct("@QHHI")
_TRACED_EVENTS = 1 << 14
_STARTED, _SENT, _COMPLETED = range(3)


class Submitter:
    """One submitter; `quota` bounds how many requests it makes, 0 for no bound."""

    def __init__(
        self,
        memory: Memory,
        number: int,
        policy: dict[str, Any],
        load: DiskLoad | NullLoad,
        *,
        quota: int,
        traces: bool,
    ) -> None:
        self._memory = memory
        self._number = number
        self._policy = policy
        self._load = load
        self._quota = quota
        self._queue = memory.queue_of(number)
        first = number * memory.outstanding
        self._first = first
        self._own_states = memory.states[first : first + memory.outstanding]
        self._started_ns = [0] * memory.outstanding
        self._free = list(range(memory.outstanding - 1, -1, -1))
        self._tally = Tally()
        self._finished = Finished()
        self._latencies_ns: list[int] = []
        self._ids: list[int] = []
        self._wrong_data = 0
        self._resets = 0
        # Where the used index was when the ring was found full.
        self._busy_since = 0
        self._trace = self._make_trace() if traces else None

    def live(self, member: Member) -> dict[str, Any]:
        self._load.prepare()
        send, send_pending = make_send(self._memory, self._queue, self._policy, self._tally)
        if self._policy["queues"] == 1:
            send = _serialised(self._queue, send)
        complete = make_complete(
            self._memory, self._queue, self._policy, self._number, self._finished
        )
        begin = self._make_begin(send)
        waiting = select.epoll()
        wake_fd = self._memory.wake_fds[self._number]
        interrupt_fd = self._queue.interrupt_fd
        waiting.register(wake_fd, select.EPOLLIN)
        # One of those who wait takes the interrupt, as one CPU does.
        waiting.register(interrupt_fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        member.ready()
        fields, control = self._queue.fields, self._memory.control
        issued = 0
        last_ns = time.monotonic_ns()
        while not (control[HALTED] or member.should_stop):
            if control[STOPPING] or issued == self._quota > 0:
                # What was reset is still in the ring, and its completions are counted, too.
                if len(self._free) == len(self._started_ns) and not self._queue.in_ring:
                    self._memory.idle[self._number] = 1
                    if all(self._memory.idle):
                        self._memory.end()
                        break
            else:
                issued += self._top_up(begin, issued)
            if fields[USED_IDX] != fields[LAST_USED]:
                complete()
                if fields[PENDING_HEAD] != fields[PENDING_TAIL]:
                    send_pending()
            if self._collect():
                last_ns = time.monotonic_ns()
                continue
            for fd, _ in waiting.poll(_LOOK_S):
                quiet(fd)
        is_whole = all(self._memory.idle)
        wrong_blocks = self._load.count_wrong(lambda: member.should_stop) if is_whole else 0
        return self._report(last_ns, wrong_blocks, is_whole and not member.should_stop)

    def _make_begin(self, send: Callable[[int], bool]) -> Callable[[int], bool]:
        """A function that makes a new request of an own slot and sends it."""
        states, serials, ids = self._memory.states, self._memory.serials, self._memory.ids
        started_ns, first, load_begin = self._started_ns, self._first, self._load.begin
        last_id, clock_ns = self._queue.last_id, time.monotonic_ns
        takes_id, trace = self._policy["id"] == "unlocked", self._trace

        def begin(number: int) -> bool:
            slot = first + number
            load_begin(slot)
            serials[slot] += 1
            states[slot] = IN_FLIGHT
            started_ns[number] = clock_ns()
            if takes_id:
                # Two reads and a write, by anyone, at any time: the bug is this.
                ids[slot] = last_id[0]
                last_id[0] += 1
            if trace:
                trace(_STARTED, slot)
            if not send(slot):
                states[slot] = FREE
                return False
            if trace:
                trace(_SENT, slot)
            return True

        return begin

    def _make_trace(self) -> Callable[[int, int], None]:
        """What an event trace does for each step of a request: time, kind, slot, index."""
        memory, fields = bytearray(_TRACED_EVENTS * _TRACE.size), self._queue.fields
        pack, clock_ns, size, mask = (
            _TRACE.pack_into, time.monotonic_ns, _TRACE.size, _TRACED_EVENTS - 1,
        )  # fmt: skip
        count = 0

        def trace(kind: int, slot: int) -> None:
            nonlocal count
            pack(memory, (count & mask) * size, clock_ns(), kind, slot, fields[LAST_USED])
            count += 1

        return trace

    def _top_up(self, begin: Callable[[int], bool], issued: int) -> int:
        """Send as many requests as slots are free, or until the ring is full."""
        free, queue = self._free, self._queue
        count = 0
        if self._tally.busy and self._is_busy():
            return 0
        while free and issued + count != (self._quota or -1):
            number = free.pop()
            if not begin(number):
                free.append(number)
                self._busy_since = queue.fields[LAST_USED]
                break
            count += 1
        return count

    def _is_busy(self) -> bool:
        completed = (self._queue.fields[LAST_USED] - self._busy_since) & INDEX_MASK
        return completed < BUSY_UNTIL_COMPLETED and self._queue.in_ring > 0

    def _collect(self) -> int:
        """Take back own slots that have completed or were reset; how many."""
        states = bytes(self._own_states)
        count = 0
        number = states.find(DONE)
        now_ns = time.monotonic_ns()
        while number >= 0:
            self._latencies_ns.append(now_ns - self._started_ns[number])
            self._ids.append(self._memory.ids[self._first + number])
            if not self._load.end(self._first + number):
                self._wrong_data += 1
            if self._trace:
                self._trace(_COMPLETED, self._first + number)
            self._own_states[number] = FREE
            self._free.append(number)
            count += 1
            number = states.find(DONE, number + 1)
        self._memory.completed[self._number] += count
        number = states.find(RESET)
        while number >= 0:
            self._load.give_up(self._first + number)
            self._resets += 1
            self._own_states[number] = FREE
            self._free.append(number)
            count += 1
            number = states.find(RESET, number + 1)
        return count

    def _report(self, last_ns: int, wrong_blocks: int, is_whole: bool) -> dict[str, Any]:
        tally, finished = self._tally, self._finished
        return {
            "requests": len(self._latencies_ns),
            "latencies_ns": self._latencies_ns,
            "ids": self._ids,
            "queue": self._queue.hba << 8 | self._queue.number,
            "last_ns": last_ns,
            "kicks": tally.kicks,
            "suppressed": tally.suppressed,
            "busy": tally.busy,
            "full_kicks": tally.full_kicks,
            "stale": finished.stale,
            "wrong": finished.wrong,
            "resets": self._resets,
            "wrong_data": self._wrong_data,
            "wrong_blocks": wrong_blocks,
            "verified": is_whole,
            "submit_hold_ns": tally.hold_ns,
            "complete_hold_ns": finished.hold_ns,
        }


def _serialised(queue: Queue, send: Callable[[int], bool]) -> Callable[[int], bool]:
    """StartIo as Windows calls it for an adapter of one queue: one request at a time."""
    acquire, release = queue.start_io_lock.acquire, queue.start_io_lock.release

    def start_io(slot: int) -> bool:
        acquire()
        try:
            return send(slot)
        finally:
            release()

    return start_io
