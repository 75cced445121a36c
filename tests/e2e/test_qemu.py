"""What QEMU says over QMP is what the topology says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.plan import DiskPlan
from lab.providers.libvirt.provider import qemu_pids
from lab.running import RunningGuest, RunningLab
from lab.topology.model import Aio, Disk


def qmp(lab: RunningLab, guest: RunningGuest, command: str, **arguments: Any) -> Any:
    request = {"execute": command} | ({"arguments": arguments} if arguments else {})
    return json.loads(lab.provider.monitor(guest.plan, json.dumps(request)))["return"]


def blocks(lab: RunningLab, guest: RunningGuest) -> dict[str, dict[str, Any]]:
    """File -> QEMU's block device backed by it."""
    return {
        block["inserted"]["file"]: block
        for block in qmp(lab, guest, "query-block")
        if "inserted" in block
    }


def command_line(guest: RunningGuest) -> list[str]:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(f"guest={guest.plan.domain}," in word for word in argv):
            return argv
    raise AssertionError(f"no QEMU process of {guest.name}")


def test_the_accelerator_is_the_recorded_one(lab: RunningLab, guest: RunningGuest) -> None:
    assert qmp(lab, guest, "query-kvm")["enabled"] == (lab.accelerator == "kvm")


def test_each_hba_has_its_iothread(lab: RunningLab, guest: RunningGuest) -> None:
    iothreads = {thread["id"] for thread in qmp(lab, guest, "query-iothreads")}
    wanted = {f"iothread{hba.iothread}" for hba in guest.plan.hbas if hba.iothread}
    assert iothreads == wanted
    for hba in guest.plan.hbas:
        path = f"/machine/peripheral/scsi{hba.index}"
        used = qmp(lab, guest, "qom-get", path=path, property="iothread")
        assert used == (f"/objects/iothread{hba.iothread}" if hba.iothread else "")
        if hba.queues:
            assert qmp(lab, guest, "qom-get", path=path, property="num_queues") == hba.queues


def test_cache_modes(lab: RunningLab, guest: RunningGuest) -> None:
    seen = blocks(lab, guest)
    for disk in guest.plan.disks:
        cache = seen[str(disk.path)]["inserted"]["cache"]
        assert cache["direct"] == disk.spec.cache.is_direct
        assert cache["no-flush"] == (disk.spec.cache == "unsafe")


def test_formats(lab: RunningLab, guest: RunningGuest) -> None:
    seen = blocks(lab, guest)
    for disk in guest.plan.data_disks:
        assert isinstance(disk.spec, Disk)
        driver = seen[str(disk.path)]["inserted"]["drv"]
        # libvirt 10 and newer leave out the raw layer, which does nothing, above the file.
        assert driver == disk.spec.format or (disk.spec.format, driver) == ("raw", "file")


def file_node(argv: list[str], disk: DiskPlan) -> dict[str, Any]:
    for word in argv:
        if word.startswith("{") and f'"filename":"{disk.path}"' in word:
            node: dict[str, Any] = json.loads(word)
            return node
    raise AssertionError(f"no block node of {disk.path}")


def test_aio_modes(guest: RunningGuest) -> None:
    argv = command_line(guest)
    for disk in guest.plan.disks:
        assert file_node(argv, disk)["aio"] == str(disk.spec.aio)


def test_io_uring_is_in_use(client: RunningGuest) -> None:
    uring = [disk for disk in client.plan.data_disks if disk.spec.aio == Aio.IO_URING]
    if not uring:
        pytest.skip("no disk of this topology uses io_uring")
    descriptors = [
        descriptor.readlink().name
        for pid in qemu_pids(client.plan.domain)
        for descriptor in Path(f"/proc/{pid}/fd").iterdir()
        if descriptor.is_symlink()
    ]
    assert any("io_uring" in name for name in descriptors)


def test_the_image_is_only_a_backing_file(lab: RunningLab, guest: RunningGuest) -> None:
    root = blocks(lab, guest)[str(guest.plan.root_disk.path)]["inserted"]
    assert root["backing_file_depth"] == 1
    assert not Path(root["backing_file"]).is_relative_to(lab.record.directory)
    # QEMU runs as another user, who owns what it may write.
    assert Path(root["backing_file"]).stat().st_uid == 0
