"""What goes wrong on a host or in a topology: said clearly, in time, and nothing left."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.host.state import labs_dir
from lab.plan import MAX_SLOTS, Identity
from lab.providers.libvirt.provider import qemu_pids
from lab.record import load, records
from tests.e2e.support import lab_command

NoTraces = Callable[[], None]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("memory: 512MiB", "memori: 512MiB", "did you mean"),
        ("memory: 512MiB", "memory: 512MB", "unit"),
        ("memory: 512MiB", "image: debian-99", "debian-12"),
        ("memory: 512MiB", "kernel: '5.10'", "6.12"),
        ("{size: 64MiB}", "{size: 64MiB, aio: native, cache: writeback}", "O_DIRECT"),
        ("{segment: lan}", "{segment: wan}", "lan"),
    ],
)
def test_bad_topologies_are_refused_before_anything_exists(
    small_topology: Path, no_traces: NoTraces, old: str, new: str, says: str
) -> None:
    small_topology.write_text(small_topology.read_text().replace(old, new))
    line = next(
        number
        for number, text in enumerate(small_topology.read_text().splitlines(), 1)
        if new.split(":")[0].strip("{") in text
    )
    refused = lab_command("up", str(small_topology))
    assert refused.returncode == 2
    assert f"{small_topology}:{line}: " in refused.stderr
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr
    no_traces()


def test_qemu_that_dies_at_once_is_quoted(small_topology: Path, no_traces: NoTraces) -> None:
    text = small_topology.read_text()
    small_topology.write_text(text.replace("memory: 512MiB", "cpu: EPYC-Nonsense"))
    failed = lab_command("up", str(small_topology))
    assert failed.returncode in (2, 5)
    assert "EPYC-Nonsense" in failed.stderr and "guest one" in failed.stderr
    no_traces()


def test_a_guest_that_never_boots_meets_the_deadline(
    small_topology: Path, no_traces: NoTraces, reachable_path: Path
) -> None:
    disk = reachable_path / "empty.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1G"], check=True)
    digest = hashlib.sha256(disk.read_bytes()).hexdigest()
    (small_topology.parent / "images").mkdir()
    (small_topology.parent / "images/empty.yaml").write_text(
        f"kind: qcow2\npath: {disk}\nsha256: {digest}\n"
    )
    text = small_topology.read_text()
    small_topology.write_text(text.replace("memory: 512MiB", "image: empty"))
    before = disk.stat()
    failed = lab_command("up", str(small_topology), "--timeout", "20s")
    assert failed.returncode == 5
    assert "no ssh server answered" in failed.stderr
    assert "the last lines of one's console" in failed.stderr
    after = disk.stat()
    # Never written, and still its owner's.
    assert hashlib.sha256(disk.read_bytes()).hexdigest() == digest
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    no_traces()


def test_taken_ports_are_avoided(small_topology: Path, no_traces: NoTraces) -> None:
    slots = {record.identity.slot for record in records()}
    free = next(slot for slot in range(MAX_SLOTS) if slot not in slots)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", Identity("small", "", free).ssh_ports()[3]))
        taken.listen()
        assert lab_command("up", str(small_topology)).returncode == 0
        record = load("small")
        assert record and record.identity.slot != free
    assert lab_command("down", "small").returncode == 0
    no_traces()


def test_an_image_that_qemu_may_not_read_is_named(
    small_topology: Path, no_traces: NoTraces, reachable_path: Path
) -> None:
    disk = reachable_path / "private" / "mine.qcow2"
    disk.parent.mkdir(mode=0o700)
    disk.write_bytes(b"QFI")
    digest = hashlib.sha256(b"QFI").hexdigest()
    (small_topology.parent / "images").mkdir()
    (small_topology.parent / "images/mine.yaml").write_text(
        f"kind: qcow2\npath: {disk}\nsha256: {digest}\n"
    )
    text = small_topology.read_text()
    small_topology.write_text(text.replace("memory: 512MiB", "image: mine"))
    refused = lab_command("up", str(small_topology))
    assert refused.returncode == 2
    assert f"{small_topology}:4: " in refused.stderr
    assert str(disk.parent) in refused.stderr and "chmod" in refused.stderr
    no_traces()


def test_no_space_is_said_before_anything_is_made(
    small_topology: Path, no_traces: NoTraces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", tiny], check=True)
    try:
        monkeypatch.setenv("LAB_STATE_DIR", str(tiny))
        failed = lab_command("up", str(small_topology))
        assert failed.returncode == 5
        assert str(tiny) in failed.stderr and "free" in failed.stderr
        assert not (tiny / "labs").exists()
    finally:
        subprocess.run(["umount", tiny], check=True)
    no_traces()


def test_a_dead_guest_is_reported_at_once(small_topology: Path, no_traces: NoTraces) -> None:
    assert lab_command("up", str(small_topology)).returncode == 0
    record = load("small")
    assert record
    for pid in qemu_pids(record.domains[0]):
        os.kill(pid, signal.SIGKILL)
    said = lab_command("exec", "--lab", "small", "one", "--", "true", timeout_s=30)
    assert said.returncode == 5
    assert "QEMU has ended" in said.stderr
    again = lab_command("up", str(small_topology), timeout_s=30)
    assert again.returncode == 5
    assert lab_command("down", "small").returncode == 0
    assert not (labs_dir() / "small").exists()
    no_traces()
