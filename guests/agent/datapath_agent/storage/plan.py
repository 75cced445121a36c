"""Every request of a closed loop, laid out before it begins.

Each of `outstanding` slots has a buffer and a chain of control blocks that use it, one after the
other; when one completes, the next of its chain is submitted. Chains are rings: a run longer
than the plan starts over.
"""

from __future__ import annotations

import random
from array import array

from datapath_agent.protocol import Fault
from datapath_agent.storage.aio import (
    BUFFER_WORD,
    BYTES_A_BLOCK,
    OFFSET_WORD,
    READ,
    WORDS_A_BLOCK,
    WRITE,
    control_block,
)

# Several seconds' worth of requests in an emulated guest; 4 MiB of control blocks.
MOST_BLOCKS = 1 << 16
_SEED = 1

PATTERNS = ("read", "write", "randread", "randwrite")


class Plan:
    """Control blocks over a disk of `disk_bytes`. `next_block` maps an address to the next one's.

    Sequential: slot s takes blocks s, s + outstanding, ... Random: with repetition, the same
    sequence each time.
    """

    def __init__(
        self,
        *,
        fd: int,
        disk_bytes: int,
        pattern: str,
        block_bytes: int,
        outstanding: int,
        buffers_address: int,
    ) -> None:
        places = disk_bytes // block_bytes
        length = min(places, MOST_BLOCKS) // outstanding
        if length < 1:
            raise Fault(
                "bad-parameter",
                f"{outstanding} requests of {block_bytes} bytes do not fit a disk of {disk_bytes}",
                field="parameters.outstanding",
            )
        count = length * outstanding
        operation = READ if pattern in ("read", "randread") else WRITE
        if pattern.startswith("rand"):
            numbers = random.Random(_SEED).choices(range(places), k=count)
        else:
            numbers = list(range(count))
        self.words = control_block(operation, fd, 0, block_bytes) * count
        slots = range(outstanding)
        self.words[OFFSET_WORD::WORDS_A_BLOCK] = array(
            "Q", [number * block_bytes for slot in slots for number in numbers[slot::outstanding]]
        )
        self.words[BUFFER_WORD::WORDS_A_BLOCK] = array(
            "Q", [buffers_address + slot * block_bytes for slot in slots for _ in range(length)]
        )
        address = self.words.buffer_info()[0]
        blocks = range(address, address + count * BYTES_A_BLOCK, BYTES_A_BLOCK)
        self.first_blocks = [blocks[slot * length] for slot in slots]
        self.next_block: dict[int, int] = dict(zip(blocks, (*blocks[1:], 0)))
        for slot in slots:
            self.next_block[blocks[(slot + 1) * length - 1]] = blocks[slot * length]
