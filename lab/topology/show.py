"""A topology drawn: a tree for the terminal, Mermaid text for documents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lab.topology.derive import Hba, hbas, nic_mtu, nics_on, rxe_mtu
from lab.topology.model import Disk, Guest, Nic, Rdma, RootDisk, Segment, Topology
from lab.units import counted, format_bits_per_s, format_bytes


class _Branch(NamedTuple):
    label: str
    children: tuple[_Branch, ...] = ()


def tree(topology: Topology) -> str:
    """guest -> HBA, iothread -> LUNs; NICs and their segments; RDMA devices and their NICs."""
    guests = tuple(_guest(topology, *item) for item in topology.guests.items())
    segments = tuple(_segment(topology, *item) for item in topology.segments.items())
    return "\n".join([topology.name, *_lines((*guests, *segments))]) + "\n"


def _lines(branches: Iterable[_Branch]) -> Iterator[str]:
    rest = tuple(branches)
    for branch in rest:
        last = branch is rest[-1]
        yield ("└── " if last else "├── ") + branch.label
        for line in _lines(branch.children):
            yield ("    " if last else "│   ") + line


def _guest(topology: Topology, name: str, guest: Guest) -> _Branch:
    return _Branch(
        f"guest {name}: {guest_text(guest)}",
        (
            *(
                _Branch(
                    f"HBA {hba_text(hba)}",
                    tuple(
                        _Branch(f"LUN {lun} {disk_text(disk_name, disk)}")
                        for lun, (disk_name, disk) in enumerate(hba.disks.items())
                    ),
                )
                for hba in hbas(guest)
            ),
            *(
                _Branch(f"NIC {nic_text(topology, nic_name, nic)} -> segment {nic.segment}")
                for nic_name, nic in guest.nics.items()
            ),
            *(
                _Branch(f"RDMA {rdma_text(topology, guest, rdma_name, rdma)} -> NIC {rdma.nic}")
                for rdma_name, rdma in guest.rdma.items()
            ),
        ),
    )


def _segment(topology: Topology, name: str, segment: Segment) -> _Branch:
    ends = ", ".join(f"{guest}.{nic}" for guest, nic in nics_on(topology, name))
    return _Branch(f"segment {segment_text(name, segment)}: {ends or 'no NIC'}")


def mermaid(topology: Topology) -> str:
    """A Mermaid flowchart: a box a guest, disks to its left, segments between guests."""
    lines = ["flowchart LR"]
    edges = []
    segment_ids = {name: f"s{index}" for index, name in enumerate(topology.segments)}
    for index, (name, guest) in enumerate(topology.guests.items()):
        lines.append(f"  subgraph g{index}[{_label(name, guest_text(guest))}]")
        for hba_index, hba in enumerate(hbas(guest)):
            hba_id = f"g{index}h{hba_index}"
            lines.append(f"    {hba_id}[{_label('HBA ' + hba_text(hba))}]")
            for lun, (disk_name, disk) in enumerate(hba.disks.items()):
                lines.append(f"    {hba_id}d{lun}[({_label(disk_text(disk_name, disk))})]")
                edges.append(f"  {hba_id}d{lun} --- {hba_id}")
        nic_ids = {nic_name: f"g{index}n{at}" for at, nic_name in enumerate(guest.nics)}
        for nic_name, nic in guest.nics.items():
            label = _label("NIC " + nic_text(topology, nic_name, nic))
            lines.append(f"    {nic_ids[nic_name]}[{label}]")
            edges.append(f"  {nic_ids[nic_name]} --- {segment_ids[nic.segment]}")
        for rdma_index, (rdma_name, rdma) in enumerate(guest.rdma.items()):
            rdma_id = f"g{index}r{rdma_index}"
            label = _label("RDMA " + rdma_text(topology, guest, rdma_name, rdma))
            lines.append(f"    {rdma_id}[{label}]")
            edges.append(f"  {rdma_id} --- {nic_ids[rdma.nic]}")
        lines.append("  end")
    for name, segment in topology.segments.items():
        label = _label("segment " + segment_text(name, segment))
        lines.append(f"  {segment_ids[name]}{{{{{label}}}}}")
    return "\n".join([*lines, *edges]) + "\n"


def _label(*lines: str) -> str:
    """Quoted text of a node; Mermaid knows characters with a meaning by #number; only."""
    escaped = ("".join(c if c not in '#"<>&`' else f"#{ord(c)};" for c in line) for line in lines)
    return '"' + "<br/>".join(escaped) + '"'


def guest_text(guest: Guest) -> str:
    parts = [guest.image + (f" kernel {guest.kernel}" if guest.kernel else "")]
    parts += [counted(guest.vcpus, "vCPU"), format_bytes(guest.memory)]
    if guest.cpu:
        parts.append(f"cpu {guest.cpu}")
    if guest.hyperv:
        parts.append("Hyper-V enlightenments")
    return ", ".join(parts)


def hba_text(hba: Hba) -> str:
    queues = counted(hba.queues, "queue") if hba.queues else "a queue per vCPU"
    return f"{hba.name}: {queues}, {'own iothread' if hba.iothread else 'main loop'}"


def disk_text(name: str, disk: Disk | RootDisk) -> str:
    if isinstance(disk, RootDisk):
        return f"{name}: overlay of the image, aio={disk.aio}, cache={disk.cache}"
    size = format_bytes(disk.size)
    discard = ", discard=unmap" if disk.discard == "unmap" else ""
    return f"{name}: {size} {disk.format}, aio={disk.aio}, cache={disk.cache}{discard}"


def nic_text(topology: Topology, name: str, nic: Nic) -> str:
    switches = {"TSO": nic.tso, "GSO": nic.gso, "checksum": nic.checksum}
    off = "".join(f", {word} off" for word, on in switches.items() if not on)
    mac = f", MAC {nic.mac}" if nic.mac else ""
    mtu = nic_mtu(topology, nic)
    return f"{name}: {nic.model}, {counted(nic.queues, 'queue')}, MTU {mtu}{off}{mac}"


def rdma_text(topology: Topology, guest: Guest, name: str, rdma: Rdma) -> str:
    if rdma.model == "siw":
        return f"{name}: siw"
    mtu = rdma.mtu or rxe_mtu(nic_mtu(topology, guest.nics[rdma.nic]) or 0)
    return f"{name}: {rdma.model}, path MTU {mtu}"


def segment_text(name: str, segment: Segment) -> str:
    rate = f", {format_bits_per_s(segment.rate)}" if segment.rate else ""
    return f"{name}: MTU {segment.mtu}{rate}"
