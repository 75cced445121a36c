"""Every name, address and path of a lab, before any of it exists.

Pure: a plan follows from the topology and the lab's identity alone, so that teardown knows what
bring-up may have made, however far it came. A slot is what keeps labs apart on one host: labs of
one state directory never share one, and ports, MACs and subnets are functions of it.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.fabric.plan import FabricPlan, SegmentPlan, TapPlan
from lab.topology.derive import ROOT, hbas
from lab.topology.model import MAX_GUESTS, MAX_SEGMENTS, Disk, Guest, Rdma, RootDisk, Topology

MAX_SLOTS = 256
# 256 slots of 32 ports end below Linux's ephemeral range (32768).
FIRST_SSH_PORT = 22000
# Data networks: /24s of 10.64.0.0/10, away from QEMU's own 10.0.2.0/24.
SUBNETS = ipaddress.IPv4Network("10.64.0.0/10")
MANAGEMENT_NIC = 0xFF


@dataclass(frozen=True)
class Identity:
    """What tells one lab from all others: its name, a random id (6 hex digits), its slot."""

    name: str
    id: str
    slot: int

    @property
    def prefix(self) -> str:
        """What the names of all its domains and its namespace begin with."""
        return f"lab-{self.name}-{self.id}"

    def ssh_ports(self) -> range:
        start = FIRST_SSH_PORT + self.slot * MAX_GUESTS
        return range(start, start + MAX_GUESTS)


@dataclass(frozen=True)
class HbaPlan:
    """A virtio-scsi controller; `iothread` is the 1-based id libvirt numbers iothreads by."""

    index: int
    queues: int | None
    iothread: int | None


@dataclass(frozen=True)
class DiskPlan:
    """A disk behind HBA `hba` at LUN `lun`; `serial` is what the guest knows it by."""

    serial: str
    target: str
    path: Path
    spec: Disk | RootDisk
    hba: int
    lun: int


@dataclass(frozen=True)
class NicPlan:
    name: str
    mac: str
    tap: str
    address: ipaddress.IPv4Interface
    mtu: int
    segment: str
    sockets: tuple[Path, Path] | None
    """Own and peer's datagram socket, for the rootless fabric: two NICs a segment."""


@dataclass(frozen=True)
class GuestPlan:
    name: str
    spec: Guest
    domain: str
    uuid: uuid.UUID
    ssh_port: int
    management_mac: str
    directory: Path
    hbas: tuple[HbaPlan, ...]
    disks: tuple[DiskPlan, ...]
    nics: tuple[NicPlan, ...]

    @property
    def seed(self) -> Path:
        """Initramfs plus seed (direct boot), or the NoCloud ISO (disk boot)."""
        return self.directory / "seed"

    @property
    def console_log(self) -> Path:
        return self.directory / "console.log"

    @property
    def agent_socket(self) -> Path:
        """Where an ordinary user's libvirt reaches QEMU's guest agent."""
        return self.directory / "agent"

    @property
    def iothreads(self) -> int:
        return sum(hba.iothread is not None for hba in self.hbas)

    @property
    def root_disk(self) -> DiskPlan:
        return self.disks[0]

    @property
    def data_disks(self) -> tuple[DiskPlan, ...]:
        return self.disks[1:]

    def rdma_on(self, nic: str) -> dict[str, Rdma]:
        return {name: rdma for name, rdma in self.spec.rdma.items() if rdma.nic == nic}


@dataclass(frozen=True)
class LabPlan:
    identity: Identity
    directory: Path
    fabric: FabricPlan
    guests: dict[str, GuestPlan]

    def user_sockets(self) -> Iterator[Path]:
        """Every UNIX socket that exists when an ordinary user brings the lab up."""
        for guest in self.guests.values():
            yield guest.agent_socket
            yield from (nic.sockets[0] for nic in guest.nics if nic.sockets)


def plan(topology: Topology, identity: Identity, directory: Path) -> LabPlan:
    """All that bringing `topology` up as `identity` in `directory` may create."""
    segments = {
        name: SegmentPlan(
            name=name, bridge=f"br{index}", mtu=segment.mtu, rate_bits_per_s=segment.rate
        )
        for index, (name, segment) in enumerate(topology.segments.items())
    }
    subnets = _subnets(identity.slot)
    subnet_of = dict(zip(segments, subnets, strict=False))
    taps = {
        (guest_name, nic_name): TapPlan(
            name=f"lab{identity.id}-{index}",
            segment=nic.segment,
            queues=nic.queues,
            mtu=nic.mtu or topology.segments[nic.segment].mtu,
        )
        for index, (guest_name, nic_name, nic) in enumerate(
            (guest_name, nic_name, nic)
            for guest_name, guest in topology.guests.items()
            for nic_name, nic in guest.nics.items()
        )
    }
    guests: dict[str, GuestPlan] = {}
    for guest_index, (name, guest) in enumerate(topology.guests.items()):
        nics = []
        for nic_index, (nic_name, nic) in enumerate(guest.nics.items()):
            tap = taps[name, nic_name]
            subnet = subnet_of[nic.segment]
            # Several NICs of a guest on one segment get addresses of their own.
            host = 1 + guest_index + MAX_GUESTS * nic_index
            nics.append(
                NicPlan(
                    name=nic_name,
                    mac=nic.mac or _mac(identity.slot, guest_index, nic_index),
                    tap=tap.name,
                    address=ipaddress.IPv4Interface((subnet[host], subnet.prefixlen)),
                    mtu=tap.mtu,
                    segment=nic.segment,
                    sockets=_sockets(tap, taps.values(), directory),
                )
            )
        guest_directory = directory / "guests" / name
        hbas, disks = _storage(guest, guest_directory)
        guests[name] = GuestPlan(
            name=name,
            spec=guest,
            domain=f"{identity.prefix}-{name}",
            uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"{identity.prefix}-{name}"),
            ssh_port=identity.ssh_ports()[guest_index],
            management_mac=_mac(identity.slot, guest_index, MANAGEMENT_NIC),
            directory=guest_directory,
            hbas=hbas,
            disks=disks,
            nics=tuple(nics),
        )
    fabric = FabricPlan(
        namespace=identity.prefix, segments=tuple(segments.values()), taps=tuple(taps.values())
    )
    return LabPlan(identity=identity, directory=directory, fabric=fabric, guests=guests)


def _sockets(tap: TapPlan, taps: Iterable[TapPlan], directory: Path) -> tuple[Path, Path] | None:
    peers = [other for other in taps if other.segment == tap.segment and other != tap]
    if len(peers) != 1:
        return None
    return directory / f"{tap.name}.sock", directory / f"{peers[0].name}.sock"


def _subnets(slot: int) -> list[ipaddress.IPv4Network]:
    span = list(SUBNETS.subnets(new_prefix=16))[slot // 4]
    start = slot % 4 * MAX_SEGMENTS
    return list(span.subnets(new_prefix=24))[start : start + MAX_SEGMENTS]


def _mac(slot: int, guest: int, nic: int) -> str:
    # 52:54:00 is QEMU's customary prefix.
    return f"52:54:00:{slot:02x}:{guest:02x}:{nic:02x}"


def _storage(guest: Guest, directory: Path) -> tuple[tuple[HbaPlan, ...], tuple[DiskPlan, ...]]:
    """Controllers and disks, the root disk first: HBA 0 is always the root disk's own."""
    planned: list[HbaPlan] = []
    placed: dict[str, tuple[int, int]] = {}
    iothreads = 0
    for index, hba in enumerate(hbas(guest)):
        iothreads += hba.iothread
        planned.append(HbaPlan(index, hba.queues, iothreads if hba.iothread else None))
        placed |= {serial: (index, lun) for lun, serial in enumerate(hba.disks)}
    specs: dict[str, Disk | RootDisk] = {ROOT: guest.root, **guest.disks}
    return tuple(planned), tuple(
        DiskPlan(
            serial=serial,
            target=f"sd{_letters(number)}",
            path=directory / f"{serial}.{_format(spec)}",
            spec=spec,
            hba=placed[serial][0],
            lun=placed[serial][1],
        )
        for number, (serial, spec) in enumerate(specs.items())
    )


def _format(spec: Disk | RootDisk) -> str:
    return spec.format if isinstance(spec, Disk) else "qcow2"


def _letters(index: int) -> str:
    """0 -> a, 25 -> z, 26 -> aa: the kernel's order of disk names."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters
