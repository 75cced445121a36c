"""A NIC's segmentation offload, for the length of a run: `ethtool -K DEV tso X gso X`.

By the ioctls that ethtool is named after: no process is started to put it back.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from contextlib import contextmanager

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SIOCGIFADDR, _SIOCETHTOOL = 0x8915, 0x8946
# linux/ethtool.h: what is asked and what is set, of each offload.
_OFFLOADS = {"tso": (0x1E, 0x1F), "gso": (0x23, 0x24)}
# Each of these switches several features of the kernel's: they are put back one by one.
_GET_FEATURES, _SET_FEATURES = 0x3A, 0x3B
_MOST_WORDS = 8


@contextmanager
def offload(address: str, wanted: str) -> Iterator[str]:
    """Have it `on` or `off` towards `address`, or `as_is`; yields the command that would do so.

    What was there before is back at the end. Raises Fault where that cannot be set.
    """
    if wanted == "as_is":
        yield ""
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        device = _device_towards(endpoint, address)
        before = _features(endpoint, device)
        try:
            for name, (ask, change) in _OFFLOADS.items():
                _ethtool(endpoint, device, change, wanted == "on")
                if _ethtool(endpoint, device, ask) != (wanted == "on"):
                    raise _refused(device, f"{name} stays as it is")
            yield f"ethtool -K {device} tso {wanted} gso {wanted}"
        finally:
            _put_back(endpoint, device, before)


def _device_towards(endpoint: socket.socket, address: str) -> str:
    try:
        endpoint.connect((address, 9))  # a UDP socket sends nothing to find its way
    except (OSError, UnicodeError) as error:
        raise Fault(
            "bad-parameter", f"cannot be used: {error}", field="parameters.address"
        ) from None
    own = socket.inet_aton(endpoint.getsockname()[0])
    for _, name in socket.if_nameindex():
        try:
            answer = fcntl.ioctl(endpoint, _SIOCGIFADDR, name.encode().ljust(40, b"\0"))
        except OSError:  # it has no address
            continue
        # struct sockaddr_in behind the name: family, port, address.
        if answer[20:24] == own or (name == "lo" and own[0] == 127):
            return name
    raise Fault("missing-device", f"no interface has the address that {address} is reached from")


def _ethtool(endpoint: socket.socket, device: str, command: int, value: bool = False) -> bool:
    answer = _ioctl(endpoint, device, struct.pack("=II", command, value))
    return bool(struct.unpack("=II", answer)[1])


def _features(endpoint: socket.socket, device: str) -> list[int]:
    """The features that are asked for, in words of 32 (struct ethtool_gfeatures)."""
    asked = struct.pack("=II", _GET_FEATURES, _MOST_WORDS) + bytes(16 * _MOST_WORDS)
    answer = _ioctl(endpoint, device, asked)
    words = min(struct.unpack_from("=II", answer)[1], _MOST_WORDS)
    # Of each word: available, requested, active, never changed.
    return [struct.unpack_from("=4I", answer, 8 + 16 * at)[1] for at in range(words)]


def _put_back(endpoint: socket.socket, device: str, before: list[int]) -> None:
    now = _features(endpoint, device)
    wishes = [word for was, is_now in zip(before, now) for word in (was ^ is_now, was)]
    if before != now:
        header = struct.pack("=II", _SET_FEATURES, len(before))
        _ioctl(endpoint, device, header + struct.pack(f"={len(wishes)}I", *wishes))


def _ioctl(endpoint: socket.socket, device: str, asked: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(asked, len(asked))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(buffer))
    try:
        fcntl.ioctl(endpoint, _SIOCETHTOOL, request)
    except OSError as error:
        raise _refused(device, error.strerror) from None
    return buffer.raw


def _refused(device: str, reason: str | None) -> Fault:
    return Fault("refused", f"offloads of {device}: {reason}", field="parameters.tso")
