"""Datagrams from one process to another through shared memory: one writer, one reader.

No lock: each end writes only its own index, and x86 (real or emulated) keeps the order of
stores. Whoever puts something also rings the other's eventfd, so no wake-up can be missed.
"""

from __future__ import annotations

import mmap
import struct
from socket import inet_aton, inet_ntoa

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from datapath_agent.mechanisms.udp.lanes import Datagram

SLOTS = 1024
_SLOT_BYTES = 2048
# Bytes that follow, index of the socket, the peer's address and port (0 where it is connected).
_HEAD = struct.Struct("=HH4sH")
# The indices are on cache lines of their own.
_WRITTEN, _READ, _INDEX_BYTES = 0, 8, 128


class Ring:
    """Made before the fork of its two ends."""

    def __init__(self) -> None:
        memory = mmap.mmap(-1, _INDEX_BYTES + SLOTS * _SLOT_BYTES)
        self._indices = memoryview(memory)[:_INDEX_BYTES].cast("Q")
        self._slots = memoryview(memory)[_INDEX_BYTES:]
        self._addresses: dict[str, bytes] = {}
        self._peers: dict[tuple[bytes, int], tuple[str, int]] = {}

    def put(self, index: int, datagram: Datagram) -> bool:
        """Add a datagram of socket `index`; False if there is no room."""
        written = self._indices[_WRITTEN]
        if written - self._indices[_READ] == SLOTS:
            return False
        data, (host, port) = datagram if isinstance(datagram, tuple) else (datagram, ("", 0))
        address = self._addresses.get(host)
        if address is None:
            address = self._addresses[host] = inet_aton(host) if host else bytes(4)
        at = written % SLOTS * _SLOT_BYTES
        size = len(data)
        _HEAD.pack_into(self._slots, at, size, index, address, port)
        at += _HEAD.size
        self._slots[at : at + size] = data
        self._indices[_WRITTEN] = written + 1
        return True

    def take(self) -> Iterator[tuple[int, Datagram]]:
        """(index of the socket, datagram) of everything that is in it now."""
        read = self._indices[_READ]
        for number in range(read, self._indices[_WRITTEN]):
            at = number % SLOTS * _SLOT_BYTES
            size, index, address, port = _HEAD.unpack_from(self._slots, at)
            at += _HEAD.size
            data = bytes(self._slots[at : at + size])
            self._indices[_READ] = number + 1
            yield index, (data, self._peer(address, port)) if port else data

    def _peer(self, address: bytes, port: int) -> tuple[str, int]:
        peer = self._peers.get((address, port))
        if peer is None:
            peer = self._peers[address, port] = (inet_ntoa(address), port)
        return peer
