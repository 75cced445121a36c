"""Is a process really listening? Asked of the kernel's own tables, never guessed by time."""

from __future__ import annotations

import os
import socket

PROC = "/proc"
_TCP_LISTEN = "0A"
_UDP_UNCONNECTED = "07"
# For reading the connection manager's table.
_TABLE_S = 5.0


def free_port(kind: str) -> int:
    """A port that nothing is bound to right now; `kind` is tcp or udp."""
    family = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, family) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(kind: str, port: int, pid: int) -> bool:
    """Does process `pid` hold a listening (tcp, rdma_cm) or bound (udp) socket on `port`?"""
    if kind == "rdma_cm":
        return _listens_for_connections(port, pid)
    inodes = _inodes(kind, port)
    return bool(inodes) and not inodes.isdisjoint(_socket_inodes(pid))


def _listens_for_connections(port: int, pid: int) -> bool:
    """The RDMA connection manager has ports and a table of its own, which `rdma` reads."""
    import subprocess  # only here: an emulated guest pays for it

    path = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    try:
        shown = subprocess.run(
            ["rdma", "resource", "show", "cm_id"],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TABLE_S,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return has_listener(shown, port, pid)


def has_listener(shown: str, port: int, pid: int) -> bool:
    """Is a listener of that process on that port among the `rdma resource show cm_id` lines?"""
    for line in shown.splitlines():
        words = line.split()
        fields = dict(zip(words[::2], words[1::2]))
        of_port = fields.get("src-addr", "").rpartition(":")[2] == str(port)
        if of_port and (fields.get("state"), fields.get("pid")) == ("LISTEN", str(pid)):
            return True
    return False


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
