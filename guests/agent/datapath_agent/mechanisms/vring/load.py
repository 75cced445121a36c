"""What one submitter asks for: which block each of its slots transfers next, and is it right?"""

from __future__ import annotations

import mmap
import random

from datapath_agent.mechanisms.vring.data import Area
from datapath_agent.mechanisms.vring.memory import Memory
from datapath_agent.storage.aio import (
    OFFSET_WORD,
    READ,
    WORDS_A_BLOCK,
    WRITE,
    address_of,
    control_block,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Random numbers are drawn before the run, and used in turn.
_DRAWN = 4096


class NullLoad:
    """Requests without data: the device completes them at once."""

    def prepare(self) -> None:
        pass

    def begin(self, slot: int) -> None:
        pass

    def end(self, slot: int) -> bool:
        return True

    def give_up(self, slot: int) -> None:
        pass

    def count_wrong(self, stopped: Callable[[], bool]) -> int:
        return 0


class DiskLoad:
    """Requests of one size to the submitter's own area; made before the fork.

    A slot has every `outstanding`-th block for itself, so that no two requests in flight are for
    the same block.
    """

    def __init__(
        self,
        memory: Memory,
        submitter: int,
        *,
        fd: int,
        start: int,
        area_bytes: int,
        pattern: str,
        block_bytes: int,
        notify_fd: int,
    ) -> None:
        count = memory.outstanding
        self._first_slot = submitter * count
        self._blocks_a_slot = area_bytes // block_bytes // count
        self._slot_count = count
        self._writes = pattern in ("write", "randwrite")
        buffers = mmap.mmap(-1, count * block_bytes)
        self._area = Area(fd, start, block_bytes, self._blocks_a_slot * count, buffers)
        self._control_blocks = memory.blocks
        self._order = (
            random.Random(submitter).choices(range(self._blocks_a_slot), k=_DRAWN)
            if pattern.startswith("rand")
            else None
        )
        self._turn = [0] * count
        self._block = [0] * count
        address = address_of(buffers)
        for number in range(count):
            at = (self._first_slot + number) * WORDS_A_BLOCK
            memory.blocks[at : at + WORDS_A_BLOCK] = control_block(
                WRITE if self._writes else READ,
                fd,
                address + number * block_bytes,
                block_bytes,
                notify_fd,
            )

    def prepare(self) -> None:
        self._area.write_all()

    def begin(self, slot: int) -> None:
        """Choose the slot's next block, and ready its buffer and control block."""
        number = slot - self._first_slot
        turn = self._turn[number]
        self._turn[number] = turn + 1
        if self._order:
            # An offset of its own, so that slots do not move in step.
            step = self._order[(turn + number * 127) % _DRAWN]
        else:
            step = turn % self._blocks_a_slot
        block = step * self._slot_count + number
        self._block[number] = block
        if self._writes:
            self._area.prepare_write(block, number)
        else:
            self._area.prepare_read(block, number)
        self._control_blocks[slot * WORDS_A_BLOCK + OFFSET_WORD] = self._area.offset(block)

    def end(self, slot: int) -> bool:
        """Is what a completed request brought right? A write is checked at the end."""
        number = slot - self._first_slot
        return self._writes or self._area.is_right(self._block[number], number)

    def give_up(self, slot: int) -> None:
        if self._writes:
            self._area.give_up(self._block[slot - self._first_slot])

    def count_wrong(self, stopped: Callable[[], bool]) -> int:
        return self._area.count_wrong(stopped) if self._writes else 0
