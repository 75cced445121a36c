"""What this guest is, read from /proc and /sys without starting a process."""

from __future__ import annotations

import os
import sys

from datapath_agent import disks, rdma

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SYS = "/sys"


def facts() -> dict[str, Any]:
    """The fields of the `hello` event beside the agent's version."""
    return {
        "python": sys.version.split()[0],
        "kernel": os.uname().release,
        "facts": {
            "vcpus": len(os.sched_getaffinity(0)),
            "memory_bytes": _memory_bytes(),
            "disks": [_disk(name) for name in disks.names() if disks.serial(name)],
            "nics": {name: _nic(name) for name in _nic_names()},
            "rdma": rdma.devices(),
        },
    }


def _memory_bytes() -> int:
    for line in disks.read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _disk(name: str) -> dict[str, Any]:
    block = f"{disks.SYS}/block/{name}"
    path = os.path.realpath(f"{block}/device").split("/")
    return {
        "name": name,
        "serial": disks.serial(name),
        "size_bytes": int(disks.read(f"{block}/size") or 0) * 512,
        # The SCSI host and the PCI function that it is, innermost one first.
        "hba": next((part for part in path if part.startswith("host")), None),
        "pci": next(
            (part for part in reversed(path) if part.count(":") == 2 and "." in part), None
        ),
        "scheduler": disks.read(f"{block}/queue/scheduler").partition("[")[2].partition("]")[0],
        "queues": len(os.listdir(f"{block}/mq")) if os.path.isdir(f"{block}/mq") else 0,
    }


def _nic_names() -> list[str]:
    root = f"{SYS}/class/net"
    return [name for name in sorted(os.listdir(root)) if os.path.exists(f"{root}/{name}/device")]


def _nic(name: str) -> dict[str, Any]:
    nic = f"{SYS}/class/net/{name}"
    queues = os.listdir(f"{nic}/queues")
    return {
        "driver": os.path.basename(os.path.realpath(f"{nic}/device/driver")),
        "mac": disks.read(f"{nic}/address"),
        "mtu": int(disks.read(f"{nic}/mtu") or 0),
        "state": disks.read(f"{nic}/operstate"),
        "rx_queues": sum(queue.startswith("rx-") for queue in queues),
        "tx_queues": sum(queue.startswith("tx-") for queue in queues),
    }
