"""What follows from a topology without being written in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.topology.model import Disk, Guest, Nic, RootDisk, ScsiHardware, Topology

ROOT = "root"

# drivers/infiniband/sw/rxe/rxe_hdr.h: RXE_MAX_HDR_LENGTH.
RXE_HEADER_BYTES = 80
IB_MTUS = (4096, 2048, 1024, 512, 256)


@dataclass(frozen=True)
class Hba:
    """A SCSI controller and the disks behind it, in LUN order.

    `queues` is None where QEMU chooses (one a vCPU). `shared` says that it is meant for several
    disks, so that its queues are the guest's `scsi.queues` and not a disk's.
    """

    name: str
    shared: bool
    queues: int | None
    disks: dict[str, Disk | RootDisk]

    @property
    def iothread(self) -> bool:
        return any(disk.iothread for disk in self.disks.values())


def hbas(guest: Guest) -> tuple[Hba, ...]:
    """The controllers of `guest`, that of the root disk first: it is always the root disk's own."""
    found = [Hba(ROOT, False, None, {ROOT: guest.root})]
    shared: dict[str, Hba] = {}
    for name, disk in guest.disks.items():
        if disk.hba is None and guest.scsi.hardware is ScsiHardware.SINGLE:
            found.append(Hba(name, False, disk.queues or guest.scsi.queues, {name: disk}))
            continue
        # No name can be empty: the guest's one HBA is apart from all named ones.
        key = disk.hba or ""
        if key not in shared:
            shared[key] = Hba(key or "shared", True, guest.scsi.queues, {})
            found.append(shared[key])
        shared[key].disks[name] = disk
    return tuple(found)


def nic_mtu(topology: Topology, nic: Nic) -> int | None:
    """The NIC's own MTU or else its segment's; None when there is no such segment."""
    segment = topology.segments.get(nic.segment)
    return nic.mtu or (segment.mtu if segment else None)


def rxe_mtu(nic_mtu: int) -> int:
    """The largest InfiniBand MTU that soft-RoCE fits on a NIC of MTU `nic_mtu`.

    As the kernel's eth_mtu_int_to_enum (rxe_param.h) and rxe_set_mtu (rxe.c) choose it.
    """
    return next((mtu for mtu in IB_MTUS if mtu <= nic_mtu - RXE_HEADER_BYTES), IB_MTUS[-1])


def nics_on(topology: Topology, segment: str) -> Iterator[tuple[str, str]]:
    """Guest and name of each NIC on `segment`."""
    for guest_name, guest in topology.guests.items():
        for nic_name, nic in guest.nics.items():
            if nic.segment == segment:
                yield guest_name, nic_name
