"""The other topology: an HBA for each aio mode, beside one HBA with two LUNs and no iothread."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.pytest_plugin import LabFactory
from lab.running import RunningGuest, RunningLab
from tests.e2e import test_guest, test_qemu


@pytest.fixture(scope="module")
def matrix(lab_factory: LabFactory, topologies: Path) -> RunningLab:
    return lab_factory(topologies / "vioscsi-matrix.yaml")


@pytest.fixture
def scsi(matrix: RunningLab) -> RunningGuest:
    return matrix.guest("scsi")


def test_disks_in_the_guest(scsi: RunningGuest) -> None:
    test_guest.test_disks_have_their_names_and_sizes(scsi)
    test_guest.test_disks_sit_on_their_hbas_and_luns(scsi)
    test_guest.test_request_queues(scsi)


def test_hbas_in_qemu(matrix: RunningLab, scsi: RunningGuest) -> None:
    test_qemu.test_each_hba_has_its_iothread(matrix, scsi)
    test_qemu.test_cache_modes(matrix, scsi)
    test_qemu.test_formats(matrix, scsi)


def test_aio_modes_in_qemu(scsi: RunningGuest) -> None:
    test_qemu.test_aio_modes(scsi)


def test_two_vcpus_do_the_work(scsi: RunningGuest) -> None:
    assert int(scsi.host.check_output("nproc")) == 2


@pytest.mark.parametrize("disk", ["threads", "native", "uring", "lun0", "lun1"])
def test_every_mode_carries_data(matrix: RunningLab, scsi: RunningGuest, disk: str) -> None:
    from lab.guest.workloads import Fio

    with scsi.agent() as agent:
        result = agent.run(
            Fio(disk=disk, pattern="randwrite", block_bytes=4096, iodepth=16, runtime_s=1.0),
            deadline=matrix.scaled(30),
        )
    assert result["write_iops"].value > 0


def test_discard_reaches_the_file(scsi: RunningGuest) -> None:
    """Of the two LUNs one passes discards on, and says so to the guest."""
    names = {name: disk["name"] for name, disk in test_guest.block_devices(scsi).items()}
    limits = {
        name: int(scsi.host.check_output(f"cat /sys/block/{names[name]}/queue/discard_max_bytes"))
        for name in ("lun0", "lun1")
    }
    assert limits["lun1"] > 0
