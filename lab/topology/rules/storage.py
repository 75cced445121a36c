"""What disks and controllers cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from lab.topology.derive import ROOT, hbas
from lab.topology.model import Aio, Disk, RootDisk, ScsiHardware, Topology
from lab.topology.problem import Loc
from lab.topology.rules import Finding, Host, each_disk, each_guest

SECTOR_BYTES = 512


def iothread_needs_own_hba(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """An iothread serves a whole controller, so one disk's wish would bind all disks behind it.

    Proxmox gives virtio-scsi-pci none at all ("iothread is only valid with virtio disk or
    virtio-scsi-single controller, ignoring"; qemu-server, PVE/QemuServer.pm).
    """
    for loc, _, guest in each_guest(topology):
        for hba in hbas(guest):
            for name, disk in hba.disks.items():
                at: Loc = (*loc, "disks", name, "iothread")
                if not disk.iothread or not isinstance(disk, Disk):
                    continue
                if disk.hba is None and hba.shared:
                    message = f"disk `{name}` cannot have an iothread on virtio-scsi-pci"
                    yield Finding(at, message, "set scsi.hardware: virtio-scsi-single")
                elif len(hba.disks) > 1:
                    message = f"disk `{name}` cannot have an iothread: it shares HBA `{hba.name}`"
                    yield Finding(at, message, "leave out its `hba` or its `iothread`")


def shared_hba_has_one_queue_count(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Queues belong to the controller (`num_queues` of QEMU's virtio-scsi-pci), not to a LUN."""
    for loc, _, guest in each_guest(topology):
        for hba in hbas(guest):
            for name, disk in hba.disks.items():
                if not (hba.shared and isinstance(disk, Disk) and disk.queues):
                    continue
                if disk.queues != hba.queues:
                    yield Finding(
                        (*loc, "disks", name, "queues"),
                        f"disk `{name}` cannot choose the queues of an HBA that others share",
                        f"set scsi.queues: {disk.queues} for the guest's shared HBAs",
                    )


def queues_within_vcpus(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """The guest uses at most a queue a CPU: min(num_queues, nr_cpu_ids) in virtscsi_probe.

    drivers/scsi/virtio_scsi.c
    """
    for loc, _, guest in each_guest(topology):
        wishes = [((*loc, "scsi", "queues"), guest.scsi.queues, "the HBAs")]
        wishes += [
            ((*loc, "disks", name, "queues"), disk.queues, f"disk `{name}`")
            for name, disk in guest.disks.items()
        ]
        for at, queues, what in wishes:
            if queues and queues > guest.vcpus:
                message = f"{queues} queues for {what}, but the guest has {guest.vcpus} vCPU"
                yield Finding(at, message, "raise `vcpus` or lower `queues`")


def native_aio_needs_direct(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """QEMU: "aio=native was specified, but it requires cache.direct=on" (block/file-posix.c)."""
    for loc, name, disk in _all_disks(topology):
        if disk.aio is Aio.NATIVE and not disk.cache.is_direct:
            yield Finding(
                (*loc, "aio"),
                f"disk `{name}`: aio=native needs O_DIRECT, which cache={disk.cache} does not use",
                "set cache: none or cache: directsync",
            )


def io_uring_is_there(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """QEMU may be built without io_uring, and a host may forbid it.

    block/io_uring.c; the sysctl kernel.io_uring_disabled; seccomp profiles of containers.
    """
    for loc, name, disk in _all_disks(topology):
        if disk.aio is Aio.IO_URING and host and not host.io_uring:
            message = f"disk `{name}`: this host's QEMU cannot use io_uring"
            yield Finding((*loc, "aio"), message, "set aio: threads or aio: native")


def disk_is_not_root(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A disk's name is its SCSI serial and its file: `root` is the system disk's."""
    for loc, name, _, _ in each_disk(topology):
        if name == ROOT:
            message = "`root` is the guest's system disk and cannot be a data disk"
            yield Finding(loc, message, "choose another name, such as `data0`")


def hba_is_not_a_disk(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """On virtio-scsi-single a disk has an HBA to itself, which others cannot join by its name."""
    for loc, name, disk, guest in each_disk(topology):
        if guest.scsi.hardware is not ScsiHardware.SINGLE or disk.hba is None:
            continue
        owner = guest.disks.get(disk.hba)
        if disk.hba == ROOT or (owner and owner.hba is None):
            yield Finding(
                (*loc, "hba"),
                f"disk `{name}` cannot join disk `{disk.hba}` on an HBA of its own",
                "name the HBA otherwise, in each disk that shares it",
            )


def whole_sectors(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """QEMU counts disks in sectors (BDRV_SECTOR_SIZE) and rounds silently."""
    for loc, name, disk, _ in each_disk(topology):
        if disk.size % SECTOR_BYTES:
            message = f"the size of disk `{name}` is not a whole number of {SECTOR_BYTES} B sectors"
            yield Finding((*loc, "size"), message, "use KiB or more")


def _all_disks(topology: Topology) -> Iterator[tuple[Loc, str, Disk | RootDisk]]:
    for loc, _, guest in each_guest(topology):
        yield (*loc, "root"), ROOT, guest.root
    for loc, name, disk, _ in each_disk(topology):
        yield loc, name, disk


RULES = (
    iothread_needs_own_hba,
    shared_hba_has_one_queue_count,
    queues_within_vcpus,
    native_aio_needs_direct,
    io_uring_is_there,
    disk_is_not_root,
    hba_is_not_a_disk,
    whole_sectors,
)
