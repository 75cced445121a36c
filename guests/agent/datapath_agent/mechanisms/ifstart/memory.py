"""What all processes of a run share: the if_snd queue, its locks, flags, and what was sent when."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from _multiprocessing import SemLock  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Frame = tuple[int, int, int, int]

IF_SND_DEPTH = 512
# Words of 64 bits at the start of the memory.
(
    START_NS,
    END_NS,
    OACTIVE,
    GONE,
    PENDING_START,
    PENDING_TXEOF,
    HEAD,
    QUEUED,
    FIRST_FREE,
) = range(9)
# Of a queued frame: who sends it, its bytes, its number, bytes of it that the device has taken.
_WORDS_A_FRAME = 4
# One more than its depth: a frame that the device refused goes back, even when others filled it.
_SLOTS = IF_SND_DEPTH + 1

_SEMAPHORE = 1  # multiprocessing.synchronize.SEMAPHORE
_names = itertools.count()
_ONE = (1).to_bytes(8, "little")
_EFD_SEMAPHORE = 1
_libc = ctypes.CDLL(None, use_errno=True)


def new_lock() -> Any:
    """What multiprocessing.Lock() is made of, without its imports; it sleeps when contended."""
    return SemLock(_SEMAPHORE, 1, 1, f"/ifstart-{os.getpid()}-{next(_names)}", True)


class Counter:
    """A counting semaphore that can be polled: an eventfd (os.eventfd needs Python 3.10)."""

    def __init__(self, initial: int = 0) -> None:
        flags = os.O_NONBLOCK | os.O_CLOEXEC | _EFD_SEMAPHORE
        self.fd: int = _libc.eventfd(initial, flags)
        if self.fd < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def post(self) -> None:
        os.write(self.fd, _ONE)

    def take(self) -> bool:
        """Take one, if there is one."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)


class Memory:
    """Made before the fork. Frames of sender i count against `windows[i]`, if it has one."""

    def __init__(self, *, bulk_senders: int, window_frames: int, bins: int, bin_s: float) -> None:
        queue_at = FIRST_FREE
        bins_at = queue_at + _SLOTS * _WORDS_A_FRAME
        self._map = mmap.mmap(-1, (bins_at + bins) * 8)
        self.words = memoryview(self._map).cast("q")
        self.if_snd = IfSnd(self.words, queue_at)
        self.tx_lock = new_lock()
        self.main_lock = new_lock()  # of no ring: what ioctls take under tx_lock=per_ring
        self.taskq_lock = new_lock()
        self.taskq_wake = Counter()
        self.refused = Counter()  # wakes who waits for the device to take more
        self.windows = [Counter(window_frames) for _ in range(bulk_senders)]
        self._bins_at = bins_at
        self._bins = bins
        self._bin_ns = int(bin_s * 1e9)

    def sent(self, now_ns: int, amount_bytes: int) -> None:
        """The device has taken a frame; to be called with the TX lock held."""
        start_ns = self.words[START_NS]
        if start_ns and now_ns >= start_ns:
            index = (now_ns - start_ns) // self._bin_ns
            if index < self._bins:
                self.words[self._bins_at + index] += amount_bytes

    def bins(self) -> list[int]:
        """Bytes that the device took in each interval."""
        return list(self.words[self._bins_at : self._bins_at + self._bins])

    def is_measured(self, now_ns: int) -> bool:
        start_ns = self.words[START_NS]
        return bool(start_ns) and now_ns >= start_ns

    def is_over(self, now_ns: int) -> bool:
        end_ns = self.words[END_NS]
        return bool(end_ns and now_ns >= end_ns) or bool(self.words[GONE])

    def close(self) -> None:
        for counter in (self.taskq_wake, self.refused, *self.windows):
            counter.close()


class IfSnd:
    """The interface's send queue: a ring of frames under a lock of its own (IF_LOCK)."""

    def __init__(self, words: memoryview[int], at: int) -> None:
        self._words = words
        self._at = at
        self._lock = new_lock()

    def append(self, sender: int, length: int, number: int) -> bool:
        """IFQ_ENQUEUE; False when the queue is full and the frame is dropped."""
        words = self._words
        with self._lock:
            queued = words[QUEUED]
            if queued >= IF_SND_DEPTH:
                return False
            at = self._at + (words[HEAD] + queued) % _SLOTS * _WORDS_A_FRAME
            words[at], words[at + 1], words[at + 2], words[at + 3] = sender, length, number, 0
            words[QUEUED] = queued + 1
            return True

    def prepend(self, frame: Frame) -> None:
        """IF_PREPEND: back to where it was taken from; only the holder of the TX lock does so."""
        words = self._words
        with self._lock:
            head = (words[HEAD] - 1) % _SLOTS
            at = self._at + head * _WORDS_A_FRAME
            words[at], words[at + 1], words[at + 2], words[at + 3] = frame
            words[HEAD] = head
            words[QUEUED] += 1

    def take(self) -> Frame | None:
        """IFQ_DRV_DEQUEUE."""
        words = self._words
        with self._lock:
            queued = words[QUEUED]
            if not queued:
                return None
            head = words[HEAD]
            at = self._at + head * _WORDS_A_FRAME
            frame = (words[at], words[at + 1], words[at + 2], words[at + 3])
            words[HEAD] = (head + 1) % _SLOTS
            words[QUEUED] = queued - 1
            return frame
