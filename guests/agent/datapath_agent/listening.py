"""Is a process really listening? Asked of the kernel's socket tables, never guessed by time."""

from __future__ import annotations

import os
import socket

PROC = "/proc"
_TCP_LISTEN = "0A"
_UDP_UNCONNECTED = "07"


def free_port(kind: str) -> int:
    """A port that nothing is bound to right now; `kind` is tcp or udp."""
    family = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, family) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(kind: str, port: int, pid: int) -> bool:
    """Does process `pid` hold a listening (tcp) or bound (udp) socket on `port`?"""
    inodes = _inodes(kind, port)
    return bool(inodes) and not inodes.isdisjoint(_socket_inodes(pid))


def _inodes(kind: str, port: int) -> set[str]:
    wanted_state = _TCP_LISTEN if kind == "tcp" else _UDP_UNCONNECTED
    inodes = set()
    for table in (kind, f"{kind}6"):
        try:
            with open(f"{PROC}/net/{table}") as file:
                rows = file.read().splitlines()[1:]
        except OSError:  # a kernel without IPv6
            continue
        for row in rows:
            columns = row.split()
            if columns[3] == wanted_state and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(columns[9])
    return inodes


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    try:
        descriptors = os.listdir(f"{PROC}/{pid}/fd")
        for descriptor in descriptors:
            target = os.readlink(f"{PROC}/{pid}/fd/{descriptor}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:  # it has ended, or closed the descriptor meanwhile
        pass
    return inodes
