"""What a user writes down: guests, their devices, and the segments between them.

Frozen models only: no I/O, and no rule that needs more than one field; what parses but cannot
work is found by lab.topology.lint, places in the file by lab.topology.load.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from lab.units import BitRate, ByteSize

MIB = 1024**2

# A name becomes part of host names, disk serials (at most 20 bytes here) and interface names.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
LabName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
MacAddress = Annotated[str, Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScsiHardware(StrEnum):
    """Proxmox's words for how disks meet controllers."""

    SINGLE = "virtio-scsi-single"
    SHARED = "virtio-scsi-pci"


class Aio(StrEnum):
    THREADS = "threads"
    NATIVE = "native"
    IO_URING = "io_uring"


class Cache(StrEnum):
    """QEMU's cache modes; `none` and `directsync` open the file with O_DIRECT."""

    NONE = "none"
    WRITEBACK = "writeback"
    WRITETHROUGH = "writethrough"
    DIRECTSYNC = "directsync"
    UNSAFE = "unsafe"

    @property
    def is_direct(self) -> bool:
        return self in (Cache.NONE, Cache.DIRECTSYNC)


class Scsi(Model):
    """Storage hardware of a guest. `queues` applies to HBAs shared by several disks."""

    hardware: ScsiHardware = ScsiHardware.SINGLE
    queues: int | None = Field(default=None, ge=1, le=64)


class RootDisk(Model):
    """The guest's system disk: always a disposable overlay of its image, so flushes are skipped."""

    iothread: bool = False
    aio: Aio = Aio.THREADS
    cache: Cache = Cache.UNSAFE


class Disk(Model):
    """A data disk, empty at bring-up. `hba` names a controller to share with other disks;

    without it, virtio-scsi-single gives the disk an HBA of its own and virtio-scsi-pci puts it
    on the guest's one HBA.
    """

    size: ByteSize
    format: Literal["raw", "qcow2"] = "raw"
    hba: Name | None = None
    iothread: bool = False
    queues: int | None = Field(default=None, ge=1, le=64)
    aio: Aio = Aio.THREADS
    cache: Cache = Cache.NONE
    discard: Literal["ignore", "unmap"] = "ignore"


class Nic(Model):
    """A NIC on a segment. `mtu` defaults to the segment's; offloads are set inside the guest."""

    segment: Name
    model: Literal["virtio", "e1000e"] = "virtio"
    queues: int = Field(default=1, ge=1, le=64)
    mtu: int | None = Field(default=None, ge=576, le=65521)
    mac: MacAddress | None = None
    tso: bool = True
    gso: bool = True
    checksum: bool = True


class Rdma(Model):
    """A software RDMA device on a NIC. `mtu` is the RDMA path MTU, by default the largest."""

    nic: Name
    model: Literal["rxe", "siw"] = "rxe"
    mtu: Literal[256, 512, 1024, 2048, 4096] | None = None


class Guest(Model):
    image: str = "debian-12"
    kernel: str | None = Field(default=None, description="a kernel of the image, such as 6.12")
    vcpus: int = Field(default=1, ge=1, le=64)
    memory: ByteSize = 768 * MIB
    cpu: str | None = Field(default=None, description="QEMU CPU model; by accelerator if absent")
    hyperv: bool = Field(default=False, description="Hyper-V enlightenments (KVM only)")
    scsi: Scsi = Scsi()
    root: RootDisk = RootDisk()
    disks: dict[Name, Disk] = {}
    nics: dict[Name, Nic] = {}
    rdma: dict[Name, Rdma] = {}


class Segment(Model):
    """A layer 2 network between guests, without a host address. `rate` is its line rate."""

    mtu: int = Field(default=1500, ge=576, le=65521)
    rate: BitRate | None = None


class Topology(Model):
    name: LabName
    guests: dict[Name, Guest] = Field(min_length=1)
    segments: dict[Name, Segment] = {}
