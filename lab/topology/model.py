"""What a user writes down: guests, their devices, and the segments between them.

Frozen models only: no I/O, and no rule that needs more than one field; what parses but cannot
work is found by lab.topology.lint, places in the file by lab.topology.load.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from lab.topology.experiment import Experiment, Label
from lab.units import BitRate, ByteSize

MIB = 1024**2

# What the plan of a lab has addresses and ports for.
MAX_GUESTS = 32
MAX_NICS = 7
MAX_SEGMENTS = 64
# tbf's older attribute for rates has 32 bits, of bytes per second; pyroute2 has no other.
MAX_RATE_BITS_PER_S = 8 * (2**32 - 1)

# A name becomes part of host names, disk serials (at most 20 bytes here) and interface names.
NAME_PATTERN = r"^[a-z][a-z0-9-]{0,19}$"
LAB_NAME_PATTERN = r"^[a-z][a-z0-9-]{0,39}$"
MAC_ADDRESS_PATTERN = r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$"
# Words that become file names and command line words elsewhere.
WORD_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
LabName = Annotated[str, Field(pattern=LAB_NAME_PATTERN)]
MacAddress = Annotated[str, Field(pattern=MAC_ADDRESS_PATTERN)]
Word = Annotated[str, Field(pattern=WORD_PATTERN)]
# Unquoted, 6.12 is a number to an editor, and the text "6.12" to the lab.
Version = Annotated[Word, WithJsonSchema({"type": ["string", "number"], "pattern": WORD_PATTERN})]


def _whole(value: Any) -> Any:
    """Text as the number it is, for types that take numbers only as such."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


IbMtu = Annotated[Literal[256, 512, 1024, 2048, 4096], BeforeValidator(_whole)]


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
    event_idx: bool = Field(default=True, description="HBAs offer VIRTIO_RING_F_EVENT_IDX")


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
    mtu: IbMtu | None = None


class Guest(Model):
    image: Word = "debian-12"
    kernel: Version | None = Field(default=None, description="a kernel of the image, such as 6.12")
    vcpus: int = Field(default=1, ge=1, le=64)
    memory: ByteSize = Field(default=768 * MIB, json_schema_extra={"default": "768MiB"})
    cpu: Word | None = Field(default=None, description="QEMU CPU model; by accelerator if absent")
    hyperv: bool = Field(default=False, description="Hyper-V enlightenments (KVM only)")
    scsi: Scsi = Scsi()
    root: RootDisk = RootDisk()
    disks: dict[Name, Disk] = {}
    nics: dict[Name, Nic] = Field(default={}, max_length=MAX_NICS)
    rdma: dict[Name, Rdma] = {}


class Segment(Model):
    """A layer 2 network between guests, without a host address. `rate` is its line rate."""

    mtu: int = Field(default=1500, ge=576, le=65521)
    rate: BitRate | None = None


class Topology(Model):
    name: LabName
    guests: dict[Name, Guest] = Field(min_length=1, max_length=MAX_GUESTS)
    segments: dict[Name, Segment] = Field(default={}, max_length=MAX_SEGMENTS)
    experiments: dict[Label, Experiment] = {}
