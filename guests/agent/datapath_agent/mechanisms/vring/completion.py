"""The driver's completing half: take what the device has used, and finish the requests."""

from __future__ import annotations

import time

from datapath_agent.mechanisms.vring.memory import (
    DONE,
    IN_FLIGHT,
    IN_PROCESS,
    INDEX_MASK,
    LAST_USED,
    NUM_FREE,
    USED_IDX,
    Memory,
    Queue,
    ring_bell,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Finished:
    """What one process found when it completed requests, its own and others'."""

    def __init__(self) -> None:
        # Completions of a request that had been given up, or that nobody waits for.
        self.stale = 0
        # Requests finished by the completion of another one.
        self.wrong = 0
        self.hold_ns: list[int] = []


def make_complete(
    memory: Memory, queue: Queue, policy: dict[str, Any], submitter: int, finished: Finished
) -> Callable[[], None]:
    """A function that empties the used ring; other submitters' requests wake their owners."""
    fields, used_ring, free, size_mask = (
        queue.fields, queue.used_ring, queue.free_descriptors, queue.size - 1,
    )  # fmt: skip
    slot_of, serial_of = queue.slot_of, queue.serial_of
    serials, states, outstanding = memory.serials, memory.states, memory.outstanding
    acquire, release, clock_ns = queue.lock.acquire, queue.lock.release, time.monotonic_ns
    in_lock = policy["complete"] != "after_unlock"
    find = _make_find(memory, queue, policy["complete"])
    wake_fds = memory.wake_fds

    def finish(slot: int, serial: int, owners: set[int]) -> None:
        """A completion says which request it is for; whether that is true, only we know."""
        found = find(slot)
        is_current = serial == serials[slot]
        if found < 0 or states[found] != IN_FLIGHT:
            finished.stale += 1
            return
        if not is_current:
            finished.stale += 1
        if found != slot or not is_current:
            finished.wrong += 1
        states[found] = DONE
        owners.add(found // outstanding)

    def complete() -> None:
        owners: set[int] = set()
        later: list[tuple[int, int]] = []
        acquire()
        begin_ns = clock_ns()
        last = fields[LAST_USED]
        while last != fields[USED_IDX]:
            descriptor = used_ring[last & size_mask]
            last = (last + 1) & INDEX_MASK
            if in_lock:
                finish(slot_of[descriptor], serial_of[descriptor], owners)
            else:
                later.append((slot_of[descriptor], serial_of[descriptor]))
            free_count = fields[NUM_FREE]
            free[free_count] = descriptor
            fields[NUM_FREE] = free_count + 1
        fields[LAST_USED] = last
        end_ns = clock_ns()
        release()
        finished.hold_ns.append(end_ns - begin_ns)
        for slot, serial in later:
            finish(slot, serial, owners)
        owners.discard(submitter)
        for owner in owners:
            ring_bell(wake_fds[owner])

    return complete


def _make_find(memory: Memory, queue: Queue, how: str) -> Callable[[int], int]:
    """The slot that a completion for `slot` finishes, by its id; -1 if there is none."""
    fields, ids = queue.fields, memory.ids
    processing_ids, processing_slots = queue.processing_ids, queue.processing_slots
    table_ids, table_slots, table_mask = queue.table_ids, queue.table_slots, queue.table_size - 1

    def by_pointer(slot: int) -> int:
        return slot

    def by_search(slot: int) -> int:
        count = fields[IN_PROCESS]
        try:
            place = processing_ids[:count].tolist().index(ids[slot])
        except ValueError:
            return -1
        found = processing_slots[place]
        # The order of the list is kept, as a linked list's would be.
        processing_ids[place : count - 1] = processing_ids[place + 1 : count]
        processing_slots[place : count - 1] = processing_slots[place + 1 : count]
        fields[IN_PROCESS] = count - 1
        return found

    def by_table(slot: int) -> int:
        place = ids[slot] & table_mask
        if table_ids[place] != ids[slot] + 1:
            return -1
        table_ids[place] = 0
        return table_slots[place]

    return {"after_unlock": by_pointer, "in_lock_linear": by_search, "in_lock_map": by_table}[how]
