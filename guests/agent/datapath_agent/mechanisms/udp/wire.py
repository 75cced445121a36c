"""What the datagrams carry: requests, answers in pieces, bulk and its acknowledgements.

As with `secnetperf -request:0`, a request is 8 bytes that say how much to answer.
"""

from __future__ import annotations

import struct

# Fills a frame of 1500 bytes, as QUIC's packets do once the path's MTU is known.
DATAGRAM_BYTES = 1472

# Bytes to answer, and a number that the answer repeats.
REQUEST = struct.Struct("!II")
# That number, which piece of the answer this is, and how many there are.
PIECE = struct.Struct("!IHH")
# In the place of bytes to answer: a datagram of bulk, whose number counts from 1.
BULK = 0xFFFFFFFF
# Datagrams of bulk received, and the highest number among them.
ACKNOWLEDGEMENT = struct.Struct("!II")
ACKNOWLEDGE_EVERY = 8

_PAYLOAD_BYTES = DATAGRAM_BYTES - PIECE.size


def pieces_of(answer_bytes: int) -> list[tuple[int, int, bytes]]:
    """(index, count, payload) of every datagram of an answer; an empty answer is one too."""
    count = max(1, -(-answer_bytes // _PAYLOAD_BYTES))
    return [
        (index, count, bytes(min(_PAYLOAD_BYTES, answer_bytes - index * _PAYLOAD_BYTES)))
        for index in range(count)
    ]
