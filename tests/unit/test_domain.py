"""Domain XML: golden files, libvirt's own schema, and rules that hold for any topology."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lab.deadline import Deadline
from lab.images.image import GuestImage
from lab.plan import Identity, plan
from lab.process import run
from lab.providers.libvirt.domain import DirectBoot, DiskBoot, Machine, render
from lab.topology.load import load

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/data/domain"
IDENTITY = Identity("golden", "3f9a1c", 5)
KVM = Machine("kvm", "namespace", vhost=True)
TCG = Machine("tcg", "namespace", vhost=False)
ROOTLESS = Machine("tcg", "sockets", vhost=False)
DIRECT = DirectBoot(Path("/images/vmlinux"), Path("/labs/seed"), ("root=LABEL=root", "quiet"))
DISK = DiskBoot(Path("/labs/seed"))
IMAGE = GuestImage("golden", "d" * 64, Path("/images/root.img"), "raw", {}, None, "direct", 1)

CASES = {
    "default-client-tcg": ("topologies/default.yaml", "client", DIRECT, TCG),
    "default-client-kvm": ("topologies/default.yaml", "client", DIRECT, KVM),
    "default-server-rootless": ("topologies/default.yaml", "server", DIRECT, ROOTLESS),
    "vioscsi-matrix-tcg": ("topologies/vioscsi-matrix.yaml", "scsi", DIRECT, TCG),
    "everything-kvm": ("tests/data/domain/everything.yaml", "all", DISK, KVM),
}


def rendered(case: str) -> str:
    topology, guest, boot, machine = CASES[case]
    lab = plan(load(ROOT / topology).topology, IDENTITY, Path("/labs/golden"))
    return render(lab.guests[guest], IDENTITY, IMAGE, boot, machine)


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    golden = GOLDEN / f"{case}.xml"
    assert rendered(case) == golden.read_text()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.skipif(not shutil.which("virt-xml-validate"), reason="needs libvirt-clients")
def test_libvirts_schema_accepts_it(case: str, tmp_path: Path) -> None:
    file = tmp_path / "domain.xml"
    file.write_text(rendered(case))
    run(["virt-xml-validate", file, "domain"], deadline=Deadline(20))


@pytest.mark.parametrize("case", CASES)
def test_every_iothread_serves_one_hba(case: str) -> None:
    domain = ET.fromstring(rendered(case))
    used = [
        int(driver.attrib["iothread"])
        for driver in domain.iterfind("devices/controller/driver")
        if "iothread" in driver.attrib
    ]
    assert used == list(range(1, int(domain.findtext("iothreads", "0")) + 1))


@pytest.mark.parametrize("case", CASES)
def test_management_never_leaves_the_host(case: str) -> None:
    assert "restrict=on,hostfwd=tcp:127.0.0.1:" in rendered(case)


def test_rings_without_event_idx_are_the_guests_own_choice() -> None:
    lab = plan(
        load(ROOT / "topologies/vioscsi-sendsrb.yaml").topology, IDENTITY, Path("/labs/golden")
    )
    off = {
        name: "virtio-scsi-pci.event_idx=off" in render(guest, IDENTITY, IMAGE, DIRECT, TCG)
        for name, guest in lab.guests.items()
    }
    assert off == {"scsi": False, "flags": True}
