"""Which CPU and priority each process has, and which server socket a connection belongs to."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections import namedtuple

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# CPUs of a worker's datapath and of its protocol: the same one unless they are two processes.
Place = namedtuple("Place", ["datapath_cpu", "protocol_cpu"])

_REAL_TIME_PRIORITY = 10
# The documented distance of the two under maximum throughput (msquic's quicdef.h).
_PARTITION_OFFSET = 2


def places(
    cpus: list[int], policy: dict[str, Any], workers: int, *, is_server: bool
) -> list[Place]:
    """A place for each worker. The server counts from the last CPU: both ends may be one guest.

    Raises Fault where there are fewer CPUs than an end's processes would need.
    """
    is_split = policy["profile"] == "maxtput"
    needed = workers * (2 if is_split else 1)
    if needed > len(cpus):
        raise Fault(
            "inexpressible",
            f"{needed} busy processes at one end need {needed} CPUs; this guest has {len(cpus)}",
            field="parameters.workers",
        )
    order = cpus[::-1] if is_server else cpus
    if not is_split:
        return [Place(cpu, cpu) for cpu in order[:workers]]
    offset = _PARTITION_OFFSET if len(cpus) > _PARTITION_OFFSET else 1
    found: list[Place] = []
    for cpu in order:
        other = order[(order.index(cpu) + offset) % len(order)]
        if not any({cpu, other} & set(place) for place in found):
            found.append(Place(cpu, other))
    if len(found) < workers:  # an odd number of pairs: neighbours fit
        found = [Place(*order[at : at + 2]) for at in range(0, len(order) - 1, 2)]
    return found[:workers]


def settle(cpu: int, *, pin: bool, is_real_time: bool) -> None:
    """Bind this process to `cpu` and set its priority. Raises Fault if that is not allowed."""
    if pin:
        os.sched_setaffinity(0, {cpu})
    if is_real_time:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REAL_TIME_PRIORITY))
        except PermissionError as error:
            raise Fault(
                "refused", f"real-time priority: {error.strerror}", field="parameters.profile"
            ) from None


# struct sock_filter: code, jt, jf, k; the codes are those of linux/filter.h.
_LOAD_HALF_ABSOLUTE, _MODULO, _RETURN_A = 0x28, 0x94, 0x16
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF
_SOURCE_PORT = 20  # behind an IPv4 header without options
_SO_ATTACH_REUSEPORT_CBPF = 51


def shard(first: socket.socket, workers: int) -> None:
    """Spread the peers over a SO_REUSEPORT group: source port modulo `workers`.

    Stands in for the NIC's RSS, by connection: a virtio NIC of one queue, and loopback, deliver
    everything on one CPU, where SO_INCOMING_CPU would choose the same worker always.
    """
    program = b"".join(
        struct.pack("=HBBI", *step)
        for step in (
            (_LOAD_HALF_ABSOLUTE, 0, 0, _NETWORK_HEADER + _SOURCE_PORT),
            (_MODULO, 0, 0, workers),
            (_RETURN_A, 0, 0, 0),
        )
    )
    code = ctypes.create_string_buffer(program, len(program))
    filter_program = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    first.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, filter_program)
