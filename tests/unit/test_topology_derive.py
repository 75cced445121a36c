"""What follows from a topology, and that the plan of a lab follows the same rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.plan import Identity, plan
from lab.topology.derive import hbas, rxe_mtu
from lab.topology.load import load

ROOT = Path(__file__).parents[2]
SOURCES = [
    *sorted((ROOT / "topologies").glob("*.yaml")),
    ROOT / "tests" / "data" / "topology" / "everything.yaml",
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_plan_has_the_hbas_that_are_drawn(source: Path, tmp_path: Path) -> None:
    topology = load(source).topology
    planned = plan(topology, Identity("t", "abcdef", 0), tmp_path).guests
    for name, guest in topology.guests.items():
        drawn = hbas(guest)
        assert [(hba.queues, hba.iothread is not None) for hba in planned[name].hbas] == [
            (hba.queues, hba.iothread) for hba in drawn
        ]
        assert {(disk.serial, disk.hba, disk.lun) for disk in planned[name].disks} == {
            (disk, index, lun)
            for index, hba in enumerate(drawn)
            for lun, disk in enumerate(hba.disks)
        }


@pytest.mark.parametrize(
    ("nic", "ib"),
    [(576, 256), (592, 512), (1500, 1024), (2128, 2048), (4175, 2048), (4176, 4096), (9000, 4096)],
)
def test_rxe_mtu_is_the_largest_that_fits(nic: int, ib: int) -> None:
    assert rxe_mtu(nic) == ib
