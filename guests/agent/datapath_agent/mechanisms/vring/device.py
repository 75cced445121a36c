"""The device of one HBA: sleeps until a doorbell, takes what is in the ring, and serves it.

It asks to be told again as QEMU's virtio_queue_set_notification() does: with EVENT_IDX it sets
avail_event to the avail index, without it clears the no-notify flag; then it looks once more.
Nothing else makes it look into the ring: no timer, no completion.
"""

from __future__ import annotations

import select

from datapath_agent.mechanisms.vring.memory import (
    AT_DISK,
    AVAIL_EVENT,
    AVAIL_IDX,
    INDEX_MASK,
    IS_TAKING,
    LAST_SEEN,
    NO_NOTIFY,
    OVER,
    USED_IDX,
    Memory,
    Queue,
    make_fence,
    quiet,
    ring_bell,
)
from datapath_agent.protocol import Fault
from datapath_agent.storage.aio import (
    BYTES_A_BLOCK,
    DATA_WORD,
    LENGTH_WORD,
    WORDS_A_BLOCK,
    Context,
    address_of,
    error_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from datapath_agent.team import Member

_LOOK_S = 0.1
_QUEUE_SHIFT = 16


class Device:
    """One HBA, which serves requests with its disk, or completes them at once."""

    def __init__(self, memory: Memory, hba: int, *, event_idx: bool, serves_disk: bool) -> None:
        self._memory = memory
        self._queues = memory.queues[hba]
        self._hba = hba
        self._event_idx = event_idx
        self._serves_disk = serves_disk
        self._completion_fd = memory.completion_fds[hba]
        self._woken = 0
        self._served = 0
        self._errors = 0

    def live(self, member: Member) -> dict[str, int]:
        if not self._serves_disk:
            return self._loop(member, None)
        # A request that was reset may still be in the ring when its slot is used again.
        depth = sum(queue.size for queue in self._queues)
        with Context(depth) as context:
            return self._loop(member, context)

    def _loop(self, member: Member, context: Context | None) -> dict[str, int]:
        waiting = select.epoll()
        taking = {}
        for queue in self._queues:
            waiting.register(queue.doorbell_fd, select.EPOLLIN)
            serve = self._make_serve(queue, context)
            taking[queue.doorbell_fd] = _make_take(queue, serve, event_idx=self._event_idx)
        waiting.register(self._completion_fd, select.EPOLLIN)
        control = self._memory.control
        member.ready()
        while not (control[OVER] or member.should_stop):
            for fd, _ in waiting.poll(_LOOK_S):
                quiet(fd)
                if fd == self._completion_fd and context:
                    self._reap(context)
                else:
                    self._woken += 1
                    taking[fd]()
        return {"woken": self._woken, "served": self._served, "io_errors": self._errors}

    def _make_serve(self, queue: Queue, context: Context | None) -> Callable[[list[int]], None]:
        """A function that has descriptors served: by the disk, or at once."""
        if context is None:
            return lambda descriptors: self._use(queue, descriptors)
        blocks, slot_of, fields = self._memory.blocks, queue.slot_of, queue.fields
        first_address = address_of(self._memory.block_memory)
        tag = queue.number << _QUEUE_SHIFT

        def serve(descriptors: list[int]) -> None:
            slots = [slot_of[descriptor] for descriptor in descriptors]
            if len(set(slots)) < len(slots):
                # A slot that was reset and used again is here twice: each has its own turn,
                # since the tag is read when the request is submitted.
                for descriptor in descriptors:
                    serve([descriptor])
                return
            for slot, descriptor in zip(slots, descriptors):
                blocks[slot * WORDS_A_BLOCK + DATA_WORD] = tag | descriptor
            fields[AT_DISK] += len(slots)
            context.submit([first_address + slot * BYTES_A_BLOCK for slot in slots])

        return serve

    def _reap(self, context: Context) -> None:
        blocks, queues = self._memory.blocks, self._queues
        first_address = address_of(self._memory.block_memory)
        addresses, tags, results = context.wait(0)
        for address, result in zip(addresses, results):
            length = blocks[(address - first_address) // 8 + LENGTH_WORD]
            if result != length:
                self._errors += 1
                raise Fault("tool-failed", f"a request to the disk failed: {error_of(result)}")
        for queue in queues:
            done = [tag & INDEX_MASK for tag in tags if tag >> _QUEUE_SHIFT == queue.number]
            if done:
                queue.fields[AT_DISK] -= len(done)
                self._use(queue, done)

    def _use(self, queue: Queue, descriptors: list[int]) -> None:
        """Put descriptors on the used ring, and interrupt the driver."""
        fields, used_ring, mask = queue.fields, queue.used_ring, queue.size - 1
        used = fields[USED_IDX]
        for descriptor in descriptors:
            used_ring[used & mask] = descriptor
            used += 1
        fields[USED_IDX] = used & INDEX_MASK
        self._served += len(descriptors)
        ring_bell(queue.interrupt_fd)


def _make_take(
    queue: Queue, serve: Callable[[list[int]], None], *, event_idx: bool
) -> Callable[[], None]:
    """A function that empties the avail ring, until it stays empty with notifications enabled."""
    fields, ring, size, fence = queue.fields, queue.avail_ring, queue.size, make_fence()
    mask = size - 1

    def take() -> None:
        fields[IS_TAKING] = 1
        last = fields[LAST_SEEN]
        while True:
            if event_idx:
                fields[AVAIL_EVENT] = fields[AVAIL_IDX]
            else:
                fields[NO_NOTIFY] = 1
            idx = fields[AVAIL_IDX]
            count = (idx - last) & INDEX_MASK
            if count > size:
                raise Fault("internal", f"the avail index ran {count} ahead of a ring of {size}")
            descriptors = [ring[(last + number) & mask] for number in range(count)]
            fields[LAST_SEEN] = last = idx
            if descriptors:
                serve(descriptors)
            if event_idx:
                fields[AVAIL_EVENT] = fields[AVAIL_IDX]
            else:
                fields[NO_NOTIFY] = 0
            fence()
            if last == fields[AVAIL_IDX]:
                fields[IS_TAKING] = 0
                return

    return take
