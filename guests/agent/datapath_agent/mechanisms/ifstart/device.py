"""The device behind the driver: a TCP stream that takes frames until its buffer is full."""

from __future__ import annotations

import socket

from datapath_agent.mechanisms.ifstart.frames import HEADER, MAGIC, OPENING
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datapath_agent.mechanisms.ifstart.memory import Frame

_LARGEST = 65536
_SO_SNDBUFFORCE = 32
_CONNECT_S = 10.0
# A peer that acknowledges nothing for so long is gone; a busy emulated one is silent for less.
_SILENT_MS = 10_000


class Gone(Exception):
    """The peer has closed the stream, or does not answer."""


class Stream:
    """Shared by all processes; whoever holds the TX lock sends."""

    def __init__(self, endpoint: socket.socket) -> None:
        self._endpoint = endpoint
        self._header = bytearray(HEADER.size)
        self._filling = memoryview(bytes(_LARGEST))

    def fileno(self) -> int:
        return self._endpoint.fileno()

    def transmit(self, frame: Frame) -> int:
        """Bytes of `frame` that were taken now, beyond those taken before. Raises Gone."""
        marked, length, number, taken = frame
        try:
            if taken >= HEADER.size:
                return self._endpoint.send(self._filling[: length - taken])
            HEADER.pack_into(self._header, 0, marked, 0, length, number)
            rest = memoryview(self._header)[taken:]
            return self._endpoint.sendmsg([rest, self._filling[: length - HEADER.size]])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Gone(error.strerror or str(error)) from None


class Nothing:
    """Takes every frame at once."""

    def transmit(self, frame: Frame) -> int:
        return frame[1] - frame[3]


def connect(address: str, port: int, *, device_kib: int, bin_s: float) -> socket.socket:
    """A stream to the receiving end, which does not block. Raises Fault where there is none."""
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        buffer_bytes = device_kib * 1024 // 2  # Linux doubles what it is given
        try:
            endpoint.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer_bytes)
        except PermissionError:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)
        endpoint.settimeout(_CONNECT_S)
        endpoint.connect((address, port))
        endpoint.sendall(OPENING.pack(MAGIC, int(bin_s * 1e9)))
    except (OSError, UnicodeError) as error:
        endpoint.close()
        raise Fault("no-answer", f"{address}:{port}: {error}") from None
    endpoint.setblocking(False)
    return endpoint
