"""RDMA devices and their GIDs, from sysfs."""

from __future__ import annotations

import os

from datapath_agent.disks import read
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SYS = "/sys"
ROCE_V2 = "RoCE v2"
_IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"
# A table has a thousand entries, filled from its start; reading all takes a guest 0.2 s.
_MOST_EMPTY = 16
_ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"


def devices() -> dict[str, dict[str, Any]]:
    """Every RDMA device by name: state and GIDs of its first port."""
    root = f"{SYS}/class/infiniband"
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    return {
        name: {
            "state": read(f"{root}/{name}/ports/1/state").partition(": ")[2],
            "gids": gids(name),
        }
        for name in names
    }


def gids(device: str) -> list[dict[str, Any]]:
    """The GIDs in use on the first port: index, type, netdev, gid and IPv4 address if it is one."""
    port = f"{SYS}/class/infiniband/{device}/ports/1"
    found: list[dict[str, Any]] = []
    index = -1
    while index - (found[-1]["index"] if found else -1) < _MOST_EMPTY:
        index += 1
        gid = read(f"{port}/gids/{index}")
        if not gid or gid == _ZERO:
            continue
        found.append(
            {
                "index": index,
                "type": read(f"{port}/gid_attrs/types/{index}"),
                "netdev": read(f"{port}/gid_attrs/ndevs/{index}"),
                "gid": gid,
                "address": _ipv4(gid),
            }
        )
    return found


def _ipv4(gid: str) -> str | None:
    if not gid.startswith(_IPV4_MAPPED):
        return None
    octets = bytes.fromhex(gid[len(_IPV4_MAPPED) :].replace(":", ""))
    return ".".join(map(str, octets))


def roce_v2_gid(device: str, address: str) -> dict[str, Any]:
    """The RoCE v2 GID of `device` for an IPv4 address; of its only one if `address` is empty."""
    if device not in devices():
        known = ", ".join(devices()) or "none"
        raise Fault(
            "bad-parameter",
            f"no RDMA device {device!r}; this guest has {known}",
            field="parameters.device",
        )
    fitting = [
        gid
        for gid in gids(device)
        if gid["type"] == ROCE_V2 and gid["address"] and address in ("", gid["address"])
    ]
    if len(fitting) != 1:
        there = ", ".join(f"{gid['type']} {gid['address'] or gid['gid']}" for gid in gids(device))
        wanted = f"for {address}" if address else "with an IPv4 address"
        raise Fault(
            "bad-parameter",
            f"{device} has {len(fitting)} RoCE v2 GIDs {wanted}, one is needed; "
            f"its GIDs: {there or 'none'}",
            field="parameters.gid_address",
        )
    return fitting[0]
