"""Frames as they cross the stream: a header that tells sender and number, and filling.

Before the first frame, the sending end tells how long the receiving end's intervals are; after
the last one, the receiving end answers with what it saw.
"""

from __future__ import annotations

import struct

from datapath_agent.protocol import Fault

# Sender (with MEASURED or without), no use, bytes of the frame with this header, number.
HEADER = struct.Struct("!HHIQ")
# Marks the frames that were queued after the warm-up.
MEASURED = 0x8000
# What it is, and nanoseconds of an interval.
OPENING = struct.Struct("!8sQ")
MAGIC = b"ifstart1"


class Frames:
    """Takes a stream apart; `measured_from` is where in it the first measured frame began."""

    def __init__(self) -> None:
        self.frames = 0
        self.violations = 0
        self.measured_from: int | None = None
        self._at = 0
        self._left = 0
        self._header = bytearray()
        self._expected: dict[int, int] = {}

    def feed(self, data: memoryview) -> None:
        """Bytes as they arrive. Raises Fault for what is no frame."""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
            else:
                step = min(HEADER.size - len(self._header), size - at)
                self._header += data[at : at + step]
                if len(self._header) == HEADER.size:
                    self._begin(self._at + at + step - HEADER.size)
            at += step
        self._at += size

    def _begin(self, at: int) -> None:
        marked, _, length, number = HEADER.unpack(self._header)
        self._header.clear()
        if length < HEADER.size:
            raise Fault("bad-output", f"a frame of {length} bytes in the stream")
        sender = marked & ~MEASURED
        if number != self._expected.get(sender, 0):
            self.violations += 1
        self._expected[sender] = number + 1
        self.frames += 1
        if marked & MEASURED and self.measured_from is None:
            self.measured_from = at
        self._left = length - HEADER.size
