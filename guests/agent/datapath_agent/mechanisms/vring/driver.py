"""The driver's submitting half: add to the ring, decide whether to kick, kick.

The functions are made once a process and queue, with what they use bound to local names: they
are the mechanism's hot path, and every attribute would widen its windows.
"""

from __future__ import annotations

import time

from datapath_agent.mechanisms.vring.memory import (
    AVAIL_EVENT,
    AVAIL_IDX,
    IDX,
    IN_PROCESS,
    INDEX_MASK,
    NO_NOTIFY,
    NUM_ADDED,
    NUM_FREE,
    PENDING_HEAD,
    PENDING_TAIL,
    Memory,
    Queue,
    make_fence,
    ring_bell,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Send = Callable[[int], bool]


class Tally:
    """What one process did to its queue."""

    def __init__(self) -> None:
        self.kicks = 0
        self.suppressed = 0
        self.busy = 0
        self.full_kicks = 0
        self.hold_ns: list[int] = []


def make_add(memory: Memory, queue: Queue, policy: dict[str, Any]) -> Callable[[int], bool]:
    """virtqueue_add() and the insertion among the requests in process; the lock is held."""
    fields, avail_ring, free = queue.fields, queue.avail_ring, queue.free_descriptors
    slot_of, serial_of, serials, ids = queue.slot_of, queue.serial_of, memory.serials, memory.ids
    last_id = queue.last_id
    processing_ids, processing_slots = queue.processing_ids, queue.processing_slots
    table_ids, table_slots, table_mask = queue.table_ids, queue.table_slots, queue.table_size - 1
    ring_mask = queue.size - 1
    takes_id = policy["id"] == "locked"
    searched = policy["complete"] == "in_lock_linear"
    mapped = policy["complete"] == "in_lock_map"

    def add(slot: int) -> bool:
        free_count = fields[NUM_FREE]
        if free_count == 0:
            return False
        fields[NUM_FREE] = free_count - 1
        descriptor = free[free_count - 1]
        slot_of[descriptor] = slot
        serial_of[descriptor] = serials[slot]
        if takes_id:
            ids[slot] = last_id[0]
            last_id[0] += 1
        if searched:
            count = fields[IN_PROCESS]
            processing_ids[count] = ids[slot]
            processing_slots[count] = slot
            fields[IN_PROCESS] = count + 1
        elif mapped:
            place = ids[slot] & table_mask
            table_ids[place] = ids[slot] + 1  # 0 is an empty place
            table_slots[place] = slot
        idx = fields[IDX]
        avail_ring[idx & ring_mask] = descriptor
        fields[IDX] = fields[AVAIL_IDX] = (idx + 1) & INDEX_MASK
        fields[NUM_ADDED] = (fields[NUM_ADDED] + 1) & INDEX_MASK
        return True

    return add


def make_kick_prepare(queue: Queue, *, event_idx: bool) -> Callable[[], bool]:
    """Does the device have to be told of what was added? The caller must serialise this.

    It reads and then clears num_added: that is what `regressed` does outside the lock.
    """
    fields, fence = queue.fields, make_fence()

    def with_event_idx() -> bool:
        fence()
        old = fields[IDX] - fields[NUM_ADDED]
        new = fields[IDX]
        fields[NUM_ADDED] = 0
        return (new - fields[AVAIL_EVENT] - 1) & INDEX_MASK < (new - old) & INDEX_MASK

    def with_flags() -> bool:
        fence()
        fields[NUM_ADDED] = 0
        return not fields[NO_NOTIFY]

    return with_event_idx if event_idx else with_flags


def make_send(
    memory: Memory, queue: Queue, policy: dict[str, Any], tally: Tally
) -> tuple[Send, Callable[[], None]]:
    """(send, send_pending): SendSRB() for a slot, and what completions do for a pending list.

    `send` is False where the ring is full and the request goes back to its owner as BUSY.
    """
    add = make_add(memory, queue, policy)
    kick_prepare = make_kick_prepare(queue, event_idx=policy["suppress"] == "event_idx")
    doorbell_fd, clock_ns, keep_hold = queue.doorbell_fd, time.monotonic_ns, tally.hold_ns.append
    acquire, release = queue.lock.acquire, queue.lock.release

    def notify() -> None:
        tally.kicks += 1
        ring_bell(doorbell_fd)

    def busy() -> bool:
        tally.busy += 1
        if policy["on_full"] == "busy_notify":
            tally.full_kicks += 1
            notify()
        return False

    def regressed(slot: int) -> bool:
        acquire()
        begin_ns = clock_ns()
        added = add(slot)
        end_ns = clock_ns()
        release()
        keep_hold(end_ns - begin_ns)
        if not added:
            return busy()
        if kick_prepare():
            notify()
        else:
            tally.suppressed += 1
        return True

    def in_lock(slot: int) -> bool:
        acquire()
        begin_ns = clock_ns()
        added = add(slot)
        must_notify = added and kick_prepare()
        end_ns = clock_ns()
        release()
        keep_hold(end_ns - begin_ns)
        if not added:
            return busy()
        if must_notify:
            notify()
        else:
            tally.suppressed += 1
        return True

    def notify_in_lock(slot: int) -> bool:
        acquire()
        begin_ns = clock_ns()
        added = add(slot)
        if added and kick_prepare():
            notify()
        elif added:
            tally.suppressed += 1
        end_ns = clock_ns()
        release()
        keep_hold(end_ns - begin_ns)
        return added or busy()

    def always(slot: int) -> bool:
        acquire()
        begin_ns = clock_ns()
        added = add(slot)
        end_ns = clock_ns()
        release()
        keep_hold(end_ns - begin_ns)
        if not added:
            return busy()
        notify()
        return True

    push, send_pending = _make_pending(queue, policy, tally, add, kick_prepare, notify)

    def prelist(slot: int) -> bool:
        push(slot)
        send_pending()
        return True

    def nothing_pending() -> None:
        pass

    sends = {
        "regressed": regressed,
        "fixed": in_lock,
        "notify_in_lock": notify_in_lock,
        "always": always,
    }
    kick = policy["kick"]
    if kick in sends:
        return sends[kick], nothing_pending
    return prelist, send_pending


def _make_pending(
    queue: Queue,
    policy: dict[str, Any],
    tally: Tally,
    add: Callable[[int], bool],
    kick_prepare: Callable[[], bool],
    notify: Callable[[], None],
) -> tuple[Callable[[int], None], Callable[[], None]]:
    """The pending list: put a request on it, and add what the ring has room for, as one batch."""
    fields, pending, mask = queue.fields, queue.pending, queue.pending_size - 1
    acquire, release = queue.lock.acquire, queue.lock.release
    list_acquire, list_release = queue.pending_lock.acquire, queue.pending_lock.release
    overwrites = policy["kick"] == "prelist_overwrite"
    clock_ns, keep_hold = time.monotonic_ns, tally.hold_ns.append

    def push(slot: int) -> None:
        list_acquire()
        tail = fields[PENDING_TAIL]
        pending[tail & mask] = slot
        fields[PENDING_TAIL] = (tail + 1) & INDEX_MASK
        list_release()

    def send_pending() -> None:
        must_notify = False
        added = 0
        acquire()
        begin_ns = clock_ns()
        head = fields[PENDING_HEAD]
        while head != fields[PENDING_TAIL] and add(pending[head & mask]):
            head = (head + 1) & INDEX_MASK
            added += 1
            # Overwriting, a later False hides an earlier True.
            must_notify = kick_prepare() or (must_notify and not overwrites)
        fields[PENDING_HEAD] = head
        end_ns = clock_ns()
        release()
        keep_hold(end_ns - begin_ns)
        if must_notify:
            notify()
            added -= 1
        if added > 0:
            tally.suppressed += added

    return push, send_pending
