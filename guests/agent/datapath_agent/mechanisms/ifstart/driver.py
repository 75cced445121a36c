"""The driver's transmit routines, by policy; each process has a Driver over the same memory.

The names are those of hv_netvsc_drv_freebsd.c, and so is the order of the steps.
"""

from __future__ import annotations

import time

from datapath_agent.mechanisms.ifstart.device import Gone
from datapath_agent.mechanisms.ifstart.memory import GONE, OACTIVE, PENDING_START, PENDING_TXEOF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.mechanisms.ifstart.device import Nothing, Stream
    from datapath_agent.mechanisms.ifstart.memory import Memory

COUNTS = (
    "frames",  # that senders queued
    "direct",  # of those, sent by the callers themselves
    "by_task",
    "by_txeof",
    "handoffs",  # calls of if_start
    "skipped",  # not called, the device being full
    "contended",  # times that a caller found the TX lock taken
    "deferred_big",  # times that a caller met a frame larger than direct_tx_size
    "no_txdescs",  # times that the device took less than a frame
    "if_snd_full",  # frames dropped
    "spins",
    "task_enqueues",
    "task_coalesced",
    "task_runs",
)


class Driver:
    """`role` is where its process sends from: direct, by_task or by_txeof."""

    def __init__(
        self, memory: Memory, device: Stream | Nothing, policy: dict[str, Any], role: str
    ) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.gone = ""
        self._memory = memory
        self._words = memory.words
        self._if_snd = memory.if_snd
        self._device = device
        self._role = role
        self._if_start = policy["if_start"]
        self._direct_tx_size: int = policy["direct_tx_size"]
        self._is_spin = policy["lock_kind"] == "spin"
        self._is_coalesced = policy["taskq_enqueue"] == "coalesced"

    def hand_off(self, marked: int, length: int, number: int) -> bool:
        """IFQ_HANDOFF: queue a frame and start the interface; False if the queue is full."""
        counts = self.counts
        if not self._if_snd.append(marked, length, number):
            counts["if_snd_full"] += 1
            return False
        counts["frames"] += 1
        # The queue's lock is a barrier between the two: a completion that clears the flag after
        # this was read finds the frame.
        if self._words[OACTIVE]:
            counts["skipped"] += 1
        else:
            counts["handoffs"] += 1
            self.start()
        return True

    def start(self) -> None:
        """if_start."""
        if self._if_start == "block":
            self._lock()
            try:
                self._start_locked(0)
            finally:
                self._memory.tx_lock.release()
        elif self._if_start == "sched_all" or self._try_start():
            self.enqueue(PENDING_START)

    def _try_start(self) -> bool:
        """Is there something left for the taskqueue?"""
        if not self._memory.tx_lock.acquire(False):
            self.counts["contended"] += 1
            return True
        try:
            return self._start_locked(self._direct_tx_size)
        finally:
            self._memory.tx_lock.release()

    def start_task(self) -> None:
        """The taskqueue's: whatever the size, and waiting for the lock."""
        self._lock()
        try:
            self._start_locked(0)
        finally:
            self._memory.tx_lock.release()

    def txeof(self) -> None:
        """The device takes frames again."""
        if self._if_start == "block":
            self.txeof_task()
        elif self._if_start == "trylock_taskq" and self._memory.tx_lock.acquire(False):
            try:
                self._words[OACTIVE] = 0
                is_left = self._start_locked(self._direct_tx_size)
            finally:
                self._memory.tx_lock.release()
            if is_left:
                self.enqueue(PENDING_START)
        else:
            # Early, so that others may catch up; the task clears it again under the lock.
            self._words[OACTIVE] = 0
            self.enqueue(PENDING_TXEOF)

    def txeof_task(self) -> None:
        self._lock()
        try:
            self._words[OACTIVE] = 0
            self._start_locked(0)
        finally:
            self._memory.tx_lock.release()

    def enqueue(self, task: int) -> None:
        """taskqueue_enqueue; a pending task is not queued again, where that is the policy."""
        counts = self.counts
        counts["task_enqueues"] += 1
        with self._memory.taskq_lock:
            if self._words[task] and self._is_coalesced:
                counts["task_coalesced"] += 1
                return
            self._words[task] += 1
        self._memory.taskq_wake.post()

    def run_task(self) -> None:
        """Run the next pending task of the taskqueue, if there is one."""
        words = self._words
        with self._memory.taskq_lock:
            task = PENDING_TXEOF if words[PENDING_TXEOF] else PENDING_START
            if not words[task]:
                return
            words[task] -= 1
        self.counts["task_runs"] += 1
        if task == PENDING_TXEOF:
            self.txeof_task()
        else:
            self.start_task()

    def _lock(self) -> None:
        lock = self._memory.tx_lock
        if lock.acquire(False):
            return
        self.counts["contended"] += 1
        if not self._is_spin:
            lock.acquire()
            return
        while not lock.acquire(False):
            self.counts["spins"] += 1

    def _start_locked(self, largest: int) -> bool:
        """Send what is queued; True if a frame larger than `largest` (0: none is) is left."""
        words, take = self._words, self._if_snd.take
        if words[OACTIVE]:
            return False
        while frame := take():
            marked, length, number, taken = frame
            if largest and length > largest:
                self._if_snd.prepend(frame)
                self.counts["deferred_big"] += 1
                return True
            try:
                taken += self._device.transmit(frame)
            except Gone as gone:
                self.gone = str(gone)
                words[GONE] = 1
                return False
            if taken < length:
                self.counts["no_txdescs"] += 1
                words[OACTIVE] = 1
                self._if_snd.prepend((marked, length, number, taken))
                self._memory.refused.post()
                return False
            self._account(marked, length)
        return False

    def _account(self, marked: int, length: int) -> None:
        self.counts[self._role] += 1
        self._memory.sent(time.monotonic_ns(), length)
        sender = marked & 0x7FFF
        if sender < len(self._memory.windows):
            self._memory.windows[sender].post()
