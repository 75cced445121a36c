"""Names and addresses of labs: what two labs must never share."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lab.plan import MAX_SLOTS, Identity, LabPlan, plan
from lab.topology.model import Topology

MIB = "64MiB"


def topology(guests: int = 2, nics: int = 1, segments: int = 1) -> Topology:
    return Topology.model_validate(
        {
            "name": "t",
            "guests": {
                f"g{g}": {
                    "disks": {"data0": {"size": MIB}, "data1": {"size": MIB, "format": "qcow2"}},
                    "nics": {f"lan{n}": {"segment": f"s{n % segments}"} for n in range(nics)},
                }
                for g in range(guests)
            },
            "segments": {f"s{n}": {} for n in range(segments)},
        }
    )


def planned(slot: int, lab_id: str, name: str = "t", **shape: int) -> LabPlan:
    identity = Identity(name, lab_id, slot)
    return plan(topology(**shape), identity, Path("/labs") / name)


def names_of(lab: LabPlan) -> set[object]:
    """Everything of a lab that is visible on the host or on a wire."""
    found: set[object] = {lab.fabric.namespace, lab.directory}
    found |= {tap.name for tap in lab.fabric.taps}
    for guest in lab.guests.values():
        found |= {guest.domain, guest.uuid, guest.ssh_port, guest.management_mac}
        found |= {nic.mac for nic in guest.nics} | {nic.address.network for nic in guest.nics}
        found |= {disk.path for disk in guest.disks} | {guest.seed, guest.console_log}
    return found


@given(
    slots=st.lists(st.integers(0, MAX_SLOTS - 1), min_size=2, max_size=4, unique=True),
    guests=st.integers(1, 32),
    nics=st.integers(0, 3),
)
def test_labs_share_nothing(slots: list[int], guests: int, nics: int) -> None:
    labs = [
        planned(slot, f"{number:06x}", f"t{number}", guests=guests, nics=nics, segments=2)
        for number, slot in enumerate(slots)
    ]
    for one, other in combinations(labs, 2):
        assert not names_of(one) & names_of(other)


@given(guests=st.integers(1, 32), nics=st.integers(0, 4), segments=st.integers(1, 3))
def test_a_lab_is_consistent_in_itself(guests: int, nics: int, segments: int) -> None:
    lab = planned(255, "ffffff", guests=guests, nics=nics, segments=segments)
    macs = [nic.mac for guest in lab.guests.values() for nic in guest.nics]
    macs += [guest.management_mac for guest in lab.guests.values()]
    addresses = [nic.address for guest in lab.guests.values() for nic in guest.nics]
    ports = [guest.ssh_port for guest in lab.guests.values()]
    for values in (macs, addresses, ports, [tap.name for tap in lab.fabric.taps]):
        assert len(set(values)) == len(values)
    assert all(1024 < port < 32768 for port in ports)
    assert all(len(tap.name) <= 15 for tap in lab.fabric.taps)
    for guest in lab.guests.values():
        for nic in guest.nics:
            same_segment = [
                each.address.network
                for other in lab.guests.values()
                for each in other.nics
                if each.segment == nic.segment
            ]
            assert set(same_segment) == {nic.address.network}


def test_single_hardware_gives_each_disk_an_hba_and_an_iothread() -> None:
    guest = Topology.model_validate(
        {
            "name": "t",
            "guests": {
                "g": {
                    "root": {"iothread": True},
                    "disks": {
                        "a": {"size": MIB, "iothread": True, "queues": 1},
                        "b": {"size": MIB, "iothread": True},
                    },
                }
            },
        }
    )
    lab = plan(guest, Identity("t", "000000", 0), Path("/labs/t"))
    assert [hba.iothread for hba in lab.guests["g"].hbas] == [1, 2, 3]
    assert [(disk.serial, disk.hba, disk.lun) for disk in lab.guests["g"].disks] == [
        ("root", 0, 0),
        ("a", 1, 0),
        ("b", 2, 0),
    ]
    assert [hba.queues for hba in lab.guests["g"].hbas] == [None, 1, None]


def test_shared_hardware_puts_disks_on_one_hba() -> None:
    guest = Topology.model_validate(
        {
            "name": "t",
            "guests": {
                "g": {
                    "vcpus": 2,
                    "scsi": {"hardware": "virtio-scsi-pci", "queues": 2},
                    "disks": {"a": {"size": MIB}, "b": {"size": MIB}},
                }
            },
        }
    )
    lab = plan(guest, Identity("t", "000000", 0), Path("/labs/t"))
    assert [(disk.hba, disk.lun) for disk in lab.guests["g"].disks] == [(0, 0), (1, 0), (1, 1)]
    assert lab.guests["g"].hbas[1].queues == 2


def test_sockets_pair_up_two_nics_only() -> None:
    pair = planned(0, "abcdef")
    one, other = (guest.nics[0].sockets for guest in pair.guests.values())
    assert one and other and one == tuple(reversed(other))
    assert {one[0], other[0]} < set(pair.user_sockets())
    assert planned(0, "abcdef", guests=3).guests["g0"].nics[0].sockets is None
