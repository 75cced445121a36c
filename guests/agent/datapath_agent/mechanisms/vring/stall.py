"""Watches the rings from outside: finds stalls, says why, and ends them as the policy says."""

from __future__ import annotations

import select
import time
from collections import namedtuple

from datapath_agent.mechanisms.vring.memory import (
    AT_DISK,
    AVAIL_EVENT,
    AVAIL_IDX,
    HALTED,
    IN_FLIGHT,
    IN_PROCESS,
    IS_TAKING,
    LAST_SEEN,
    LAST_USED,
    NO_NOTIFY,
    NUM_ADDED,
    PENDING_HEAD,
    PENDING_TAIL,
    RESET,
    STOPPING,
    USED_IDX,
    Memory,
    Queue,
    ring_bell,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

STALLED_AFTER_S = 1.0
# A look that comes so late says that nobody ran, not that nobody made progress.
_LATE_S = 0.5
_RECOVERY_S = 1.0
_RECOVERY_LOOK_S = 0.001
_LOCK_S = 0.1

LOST_KICK = "lost kick"
DEVICE_BUSY = "device busy"
DEVICE_NOT_RUN = "device did not run"
NOT_COMPLETED = "completed by the device, not by the driver"
# Counters of stalls by cause.
CAUSES = {
    "lost_kicks": LOST_KICK,
    "device_busy": DEVICE_BUSY,
    "device_not_run": DEVICE_NOT_RUN,
    "not_completed": NOT_COMPLETED,
}

# A queue as it was found; `is_rung` tells whether the doorbell waits to be heard.
RingState = namedtuple(
    "RingState",
    [
        "in_ring", "avail_idx", "last_seen", "avail_event", "no_notify", "num_added", "used_idx",
        "last_used", "at_disk", "is_taking", "is_rung",
    ],
)  # fmt: skip


def look(queue: Queue) -> RingState:
    fields = queue.fields
    poll = select.poll()
    poll.register(queue.doorbell_fd, select.POLLIN)
    return RingState(
        in_ring=queue.in_ring,
        avail_idx=fields[AVAIL_IDX],
        last_seen=fields[LAST_SEEN],
        avail_event=fields[AVAIL_EVENT],
        no_notify=fields[NO_NOTIFY],
        num_added=fields[NUM_ADDED],
        used_idx=fields[USED_IDX],
        last_used=fields[LAST_USED],
        at_disk=fields[AT_DISK],
        is_taking=bool(fields[IS_TAKING]),
        is_rung=bool(poll.poll(0)),
    )


def cause(state: RingState) -> str:
    """Why a queue in that state makes no progress."""
    if state.used_idx != state.last_used:
        return NOT_COMPLETED
    if state.is_rung or state.is_taking:
        return DEVICE_NOT_RUN
    if state.at_disk:
        return DEVICE_BUSY
    if state.avail_idx != state.last_seen:
        return LOST_KICK
    return NOT_COMPLETED


class Stall:
    """One stall of one queue, from its detection to its end."""

    def __init__(
        self, queue: Queue, state: RingState, operations: int, in_all: int, since_s: float
    ) -> None:
        self.queue = queue
        self.state = state
        self.cause = cause(state)
        # Completed before it, by the queue and by the whole run.
        self.operations = operations
        self.operations_in_all = in_all
        self.since_s = since_s
        self.submitted_while = 0
        self.recovery = ""
        self.kicked_s: float | None = None
        self.recovered_s: float | None = None

    @property
    def recovery_ms(self) -> float | None:
        """From the last progress before it to the first one after it."""
        return None if self.recovered_s is None else (self.recovered_s - self.since_s) * 1000

    @property
    def kick_to_progress_ms(self) -> float | None:
        """From the forced kick to the first progress after it."""
        if self.kicked_s is None or self.recovered_s is None:
            return None
        return (self.recovered_s - self.kicked_s) * 1000

    def __str__(self) -> str:
        state = self.state
        told = (
            f"hba {self.queue.hba} queue {self.queue.number}, after {self.operations:,} requests: "
            f"{self.cause} ({state.in_ring} in the ring, avail idx {state.avail_idx}, device saw "
            f"{state.last_seen}, avail_event {state.avail_event}, num_added {state.num_added}, "
            f"{state.at_disk} at the disk, device "
            f"{'takes' if state.is_taking else 'does not look'}, doorbell "
            f"{'rung' if state.is_rung else 'silent'})"
        )
        if self.recovery_ms is None:
            return f"{told}; never recovered"
        return (
            f"{told}; {self.submitted_while} submitted meanwhile; "
            f"recovered after {self.recovery_ms:.0f} ms by {self.recovery}"
        )


class Watch:
    """Called some ten times a second while a team runs; `look()` returns nothing and may end it."""

    def __init__(
        self, memory: Memory, *, resets: bool, stall_s: float, end_s: float, start_s: float
    ) -> None:
        self._memory = memory
        self._resets = resets
        self._stall_s = stall_s
        self._end_s = end_s
        self._last_look_s = start_s
        # Of each queue: where it was last seen to move, when, and what all had completed by then.
        self._progress: dict[Queue, tuple[tuple[int, int], float, int]] = {}
        self._open: dict[Queue, Stall] = {}
        # Of each queue that was reset: how many requests were in its ring then.
        self._in_ring_at_reset: dict[Queue, int] = {}
        self.stalls: list[Stall] = []
        self.late_looks = 0
        self.resets = 0

    def look(self) -> None:
        now_s = time.monotonic()
        if now_s - self._last_look_s > _LATE_S:
            self.late_looks += 1
            self._progress.clear()
        self._last_look_s = now_s
        if now_s >= self._end_s and not self._memory.control[STOPPING]:
            self._memory.control[STOPPING] = 1
        for queue in self._memory.all_queues():
            self._look_at(queue, now_s)
        if self._memory.control[HALTED]:
            self._memory.end()

    def _look_at(self, queue: Queue, now_s: float) -> None:
        fields = queue.fields
        place = (fields[USED_IDX], fields[LAST_USED])
        before, since_s, in_all = self._progress.get(queue, (None, now_s, 0))
        if place != before or not queue.in_ring:
            self._progress[queue] = (place, now_s, sum(self._memory.completed))
            if queue in self._open and place != before:
                self._recovered(queue, now_s, self._what_helped(queue))
            return
        stood_s = now_s - since_s
        if queue not in self._open and stood_s > STALLED_AFTER_S:
            operations = self._memory.completed_of(queue)
            stall = Stall(queue, look(queue), operations, in_all, since_s)
            self._open[queue] = stall
            self.stalls.append(stall)
        if queue in self._open and stood_s > self._stall_s:
            self._act(queue)

    def _act(self, queue: Queue) -> None:
        """After `stall_s`: reset if that is the policy, or else kick and end the trial.

        It is reset again and again, as a guest would, while that brings requests into the ring.
        """
        if self._resets and queue.in_ring > self._in_ring_at_reset.get(queue, 0):
            in_ring = queue.in_ring
            if not self._reset(queue):
                return
            self._in_ring_at_reset[queue] = in_ring
            # Another `stall_s` for what is submitted after the reset to help.
            place, _, in_all = self._progress[queue]
            self._progress[queue] = (place, time.monotonic(), in_all)
            return
        self._memory.control[STOPPING] = 1
        place = (queue.fields[USED_IDX], queue.fields[LAST_USED])
        self._open[queue].kicked_s = time.monotonic()
        ring_bell(queue.doorbell_fd)
        end_s = time.monotonic() + _RECOVERY_S
        while time.monotonic() < end_s:
            if (queue.fields[USED_IDX], queue.fields[LAST_USED]) != place:
                self._recovered(queue, time.monotonic(), "a forced kick")
                return
            time.sleep(_RECOVERY_LOOK_S)
        self._memory.control[HALTED] = 1

    def _reset(self, queue: Queue) -> bool:
        """Complete every request in flight, without a word to the device (`fdf56ddf`)."""
        memory = self._memory
        if not queue.lock.acquire(True, _LOCK_S):
            return False
        try:
            for submitter in range(memory.submitters):
                if memory.queue_of(submitter) is not queue:
                    continue
                first = submitter * memory.outstanding
                for slot in range(first, first + memory.outstanding):
                    if memory.states[slot] == IN_FLIGHT:
                        memory.states[slot] = RESET
                        self.resets += 1
                ring_bell(memory.wake_fds[submitter])
            queue.fields[IN_PROCESS] = 0
            queue.fields[PENDING_HEAD] = queue.fields[PENDING_TAIL]
            queue.table_ids[:] = memoryview(bytes(8 * queue.table_size)).cast("Q")
        finally:
            queue.lock.release()
        return True

    def _recovered(self, queue: Queue, now_s: float, recovery: str) -> None:
        stall = self._open.pop(queue)
        stall.recovered_s = now_s
        stall.recovery = recovery
        stall.submitted_while = (queue.fields[AVAIL_IDX] - stall.state.avail_idx) & 0xFFFF
        self._in_ring_at_reset.pop(queue, None)
        self._progress.pop(queue, None)

    def _what_helped(self, queue: Queue) -> str:
        if queue in self._in_ring_at_reset and self._open[queue].cause == LOST_KICK:
            return "a kick after the reset"
        return "itself"
