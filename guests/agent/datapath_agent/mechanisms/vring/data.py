"""A submitter's own part of a disk: every block says where it belongs and which write it is from.

A block starts and ends with a stamp of its offset and generation. A read is given a buffer whose
stamps have been wiped, so that a completion that came too early, or for another request, shows;
writes are read back at the end.
"""

from __future__ import annotations

import mmap
import os
import struct

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STAMP = struct.Struct("@QQ")
_WIPED = b"\xff" * STAMP.size
_CHUNK_BYTES = 1 << 20


class Area:
    """`block_count` blocks from byte `start` of the disk `fd`, with `buffers` to transfer them."""

    def __init__(
        self, fd: int, start: int, block_bytes: int, block_count: int, buffers: mmap.mmap
    ) -> None:
        self._fd = fd
        self._start = start
        self._block_bytes = block_bytes
        self._buffers = buffers
        self._last_stamp = block_bytes - STAMP.size
        # What may be found in each block: the generation written last, and the one before it
        # where the last write was given up and may or may not have happened.
        self._generation = [0] * block_count
        self._is_uncertain = bytearray(block_count)

    def offset(self, block: int) -> int:
        return self._start + block * self._block_bytes

    def write_all(self) -> None:
        """Generation 0 everywhere."""
        self._each_chunk(self._write_chunk)

    def prepare_read(self, block: int, buffer: int) -> None:
        at = buffer * self._block_bytes
        self._buffers[at : at + STAMP.size] = _WIPED
        at += self._last_stamp
        self._buffers[at : at + STAMP.size] = _WIPED

    def prepare_write(self, block: int, buffer: int) -> None:
        generation = self._generation[block] + 1
        self._generation[block] = generation
        at = buffer * self._block_bytes
        STAMP.pack_into(self._buffers, at, self.offset(block), generation)
        STAMP.pack_into(self._buffers, at + self._last_stamp, self.offset(block), generation)

    def is_right(self, block: int, buffer: int) -> bool:
        """Has that block been read into that buffer, all of it?"""
        return self._matches(self._buffers, buffer * self._block_bytes, block)

    def give_up(self, block: int) -> None:
        """A write of it was reset: nobody knows whether it will still happen."""
        self._is_uncertain[block] = 1

    def count_wrong(self, stopped: Callable[[], bool]) -> int:
        """Read everything back; how many blocks hold what was not written last."""
        wrong = 0

        def check(first: int, count: int, memory: mmap.mmap) -> None:
            nonlocal wrong
            if stopped():
                return
            offset = self.offset(first)
            if os.preadv(self._fd, [_part(memory, count * self._block_bytes)], offset) < 1:
                raise Fault("tool-failed", f"nothing can be read back at byte {offset}")
            wrong += sum(
                not self._matches(memory, number * self._block_bytes, first + number)
                for number in range(count)
            )

        self._each_chunk(check)
        return wrong

    def _matches(self, memory: mmap.mmap, at: int, block: int) -> bool:
        found = STAMP.unpack_from(memory, at)
        if found != STAMP.unpack_from(memory, at + self._last_stamp):
            return False
        offset, generation = found
        newest = self._generation[block]
        oldest = newest - 1 if self._is_uncertain[block] else newest
        return bool(offset == self.offset(block) and oldest <= generation <= newest)

    def _write_chunk(self, first: int, count: int, memory: mmap.mmap) -> None:
        for number in range(count):
            at = number * self._block_bytes
            STAMP.pack_into(memory, at, self.offset(first + number), 0)
            STAMP.pack_into(memory, at + self._last_stamp, self.offset(first + number), 0)
        length = count * self._block_bytes
        try:
            written = os.pwritev(self._fd, [_part(memory, length)], self.offset(first))
        except OSError as error:
            raise Fault("tool-failed", f"the disk cannot be written: {error.strerror}") from None
        if written != length:
            raise Fault("tool-failed", f"the disk took {written} of {length} bytes")

    def _each_chunk(self, do: Callable[[int, int, mmap.mmap], None]) -> None:
        """`do(first block, how many, memory)` over the whole area."""
        blocks = len(self._generation)
        step = max(1, _CHUNK_BYTES // self._block_bytes)
        memory = mmap.mmap(-1, step * self._block_bytes)
        for first in range(0, blocks, step):
            do(first, min(step, blocks - first), memory)


def _part(memory: mmap.mmap, length: int) -> memoryview:
    return memoryview(memory)[:length]
