"""What submitters, devices and the watch share: a split ring a queue, its driver's state, slots.

Everything is mapped before the fork, as arrays of machine words: an element is read and written
in one access, as the fields of a real ring are.
"""

from __future__ import annotations

import _thread
import mmap
import os
import struct
from _multiprocessing import SemLock  # type: ignore[import-not-found]

from datapath_agent.storage.aio import BYTES_A_BLOCK, eventfd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INDEX_MASK = 0xFFFF

# The ring's own fields, and the driver's beside them, as elements of Queue.fields.
(
    AVAIL_IDX, AVAIL_EVENT, USED_IDX, NO_NOTIFY,  # the ring
    IDX, NUM_ADDED, NUM_FREE, LAST_USED,  # the driver
    LAST_SEEN, IS_TAKING, AT_DISK,  # the device
    PENDING_HEAD, PENDING_TAIL, IN_PROCESS,  # lists of the driver
) = range(14)  # fmt: skip
_FIELDS = 16

# Elements of Memory.control: no new requests; no more waiting for old ones; devices may go.
STOPPING, HALTED, OVER = range(3)

# A slot is a request as its owner sees it: SRB, SRB extension and data buffer in one.
FREE, IN_FLIGHT, DONE, RESET = range(4)

RING = struct.pack("@Q", 1)  # what is written to an eventfd
_SEMAPHORE = 1
_names = iter(range(1 << 30))


def words(code: str, count: int) -> memoryview[int]:
    """`count` elements of struct code `code`, zero, shared with every process forked later."""
    return memoryview(mmap.mmap(-1, max(1, count) * struct.calcsize(code))).cast(code)  # type: ignore[call-overload, no-any-return]


def lock() -> Any:
    """What multiprocessing.Lock() is made of, without its imports; it sleeps when contended."""
    return SemLock(_SEMAPHORE, 1, 1, f"/datapath-{os.getpid()}-{next(_names)}", True)


def make_fence() -> Any:
    """A full memory barrier: on x86 a private, uncontended lock taken and given back.

    Without it, between publishing `idx` and reading `avail_event` and on the other side between
    the reverse, a run would test the processor's memory model instead of the protocol.
    """
    own = _thread.allocate_lock()
    take, give = own.acquire, own.release

    def fence() -> None:
        take()
        give()

    return fence


def ring_bell(fd: int) -> None:
    os.write(fd, RING)


def quiet(fd: int) -> None:
    """Take back what rings `fd`; it may have been taken by another process."""
    try:
        os.read(fd, 8)
    except BlockingIOError:
        pass


class Queue:
    """A split ring of `size` entries, and what the driver keeps of its own for it.

    Every request takes one descriptor, as with indirect descriptors.
    """

    def __init__(self, hba: int, number: int, size: int, slot_count: int) -> None:
        self.hba = hba
        self.number = number
        self.size = size
        self.fields = words("H", _FIELDS)
        self.avail_ring = words("H", size)
        self.used_ring = words("H", size)
        self.free_descriptors = words("H", size)
        for descriptor in range(size):
            self.free_descriptors[descriptor] = descriptor
        self.fields[NUM_FREE] = size
        # Until when the device sleeps: rung for requests, and rung for completions.
        self.doorbell_fd = eventfd()
        self.interrupt_fd = eventfd()
        self.lock = lock()
        # Which slot a descriptor stands for, and the slot's serial number when it was added.
        self.slot_of = words("H", size)
        self.serial_of = words("Q", size)
        # Requests in process, by id: a list to be searched, and a table by the id's low bits.
        self.processing_ids = words("Q", slot_count + size)
        self.processing_slots = words("H", slot_count + size)
        self.table_size = 1 << max(10, (4 * (slot_count + size)).bit_length())
        self.table_ids = words("Q", self.table_size)
        self.table_slots = words("H", self.table_size)
        # The list of requests before they are added.
        self.pending = words("H", self.pending_size)
        self.pending_lock = lock()
        self.last_id = words("Q", 1)
        self.start_io_lock = lock()

    @property
    def pending_size(self) -> int:
        return 1 << 16

    @property
    def in_ring(self) -> int:
        """Requests that the driver has added and not got back."""
        return self.size - self.fields[NUM_FREE]

    def close(self) -> None:
        os.close(self.doorbell_fd)
        os.close(self.interrupt_fd)


class Memory:
    """All that is shared in one run."""

    def __init__(
        self, *, hbas: int, queues: int, ring_size: int, submitters: int, outstanding: int
    ) -> None:
        self.submitters = submitters
        self.outstanding = outstanding
        slots = submitters * outstanding
        self.queues = [
            [Queue(hba, number, ring_size, slots) for number in range(queues)]
            for hba in range(hbas)
        ]
        self.control = words("B", 3)
        self.states = words("B", slots)
        self.serials = words("Q", slots)
        self.ids = words("Q", slots)
        # What each slot's device is asked to do: control blocks of Linux AIO.
        self._blocks = mmap.mmap(-1, slots * BYTES_A_BLOCK)
        self.blocks = memoryview(self._blocks).cast("Q")
        self.block_memory = self._blocks
        # Of each submitter: requests completed, whether it has nothing more to do, its wake-up.
        self.completed = words("Q", submitters)
        self.idle = words("B", submitters)
        self.wake_fds = [eventfd() for _ in range(submitters)]
        # Of each HBA: what the kernel rings when its disk is done with a request.
        self.completion_fds = [eventfd() for _ in range(hbas)]

    def queue_of(self, submitter: int) -> Queue:
        """Submitters are spread over HBAs, and on each over its queues: submitter % queues.

        A submitter keeps its queue whatever CPU it is on, so that the number of submitters a
        queue is part of the experiment and not of scheduling.
        """
        hbas = len(self.queues)
        queues = self.queues[submitter % hbas]
        return queues[submitter // hbas % len(queues)]

    def completed_of(self, queue: Queue) -> int:
        """Requests that the submitters of `queue` have got back."""
        return sum(
            self.completed[submitter]
            for submitter in range(self.submitters)
            if self.queue_of(submitter) is queue
        )

    def all_queues(self) -> list[Queue]:
        return [queue for queues in self.queues for queue in queues]

    def end(self) -> None:
        """All is done: wake whoever waits to hear of it."""
        self.control[OVER] = 1
        for fd in self.wake_fds:
            ring_bell(fd)
        for queue in self.all_queues():
            ring_bell(queue.doorbell_fd)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for queue in self.all_queues():
            queue.close()
        for fd in self.wake_fds + self.completion_fds:
            os.close(fd)
