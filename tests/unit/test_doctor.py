"""`lab doctor`: each thing that is wrong is named, with what mends it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import typer

from lab.cli.doctor import doctor
from lab.host import accelerator, capabilities, libvirt_daemon
from lab.host import doctor as host_doctor
from lab.host.doctor import Check, checks

PORTS = range(22000, 30192)
FINE = Check("memory", "ok", "plenty")
FULL = Check("disk space", "broken", "full", "no room", "lab image prune")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what root finds")


def named(name: str, state_dir: Path = Path("/var/lib/lab"), ports: range = PORTS) -> Check:
    return next(check for check in checks(state_dir, ports) if check.name == name)


@pytest.fixture
def kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /dev/kvm of the test's own, which everyone may open."""
    path = tmp_path / "kvm"
    path.touch()
    path.chmod(0o666)
    monkeypatch.setattr(accelerator, "KVM", path)
    monkeypatch.setattr(libvirt_daemon, "KVM", path)
    return path


def test_every_check_that_is_not_ok_says_why_and_what_mends_it(kvm: Path, tmp_path: Path) -> None:
    kvm.unlink()
    for check in checks(tmp_path, range(22000, 65000)):
        assert check.found
        assert check.state == "ok" or (check.why and check.remedy), check


def test_it_is_quick() -> None:
    start_s = time.monotonic()
    checks(Path("/var/lib/lab"), PORTS)
    assert time.monotonic() - start_s < 2


def test_a_host_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    for name in ("qemu", "libvirt", "programs"):
        check = named(name)
        assert check.state == "broken" and check.remedy == "make setup"
    assert "mmdebstrap builds guest images" in named("programs").why


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("QEMU emulator version 6.2.0 (Debian)", "broken"),
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)", "ok"),
        ("QEMU emulator version 10.0.2", "ok"),
        ("Segmentation fault", "broken"),
    ],
)
def test_qemu_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, state: str
) -> None:
    qemu = tmp_path / accelerator.QEMU
    qemu.write_text(f"#!/bin/sh\necho '{said}'\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert named("qemu").state == state


def test_a_qemu_that_hangs_does_not_hang_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = tmp_path / accelerator.QEMU
    qemu.write_text("#!/bin/sh\nexec sleep 60\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(host_doctor, "VERSION_S", 0.2)
    check = named("qemu")
    assert check.state == "broken" and "did not end in time" in check.found


@needs_root
def test_the_probing_trap_is_named(kvm: Path) -> None:
    kvm.chmod(0o600)
    check = named("kvm")
    assert check.state == "warning"
    assert "minutes" in check.why and check.remedy == f"chgrp kvm {kvm} && chmod 0660 {kvm}"


def test_without_kvm_guests_are_emulated(kvm: Path) -> None:
    kvm.unlink()
    assert named("kvm").state == named("accelerator").state == "warning"
    assert "no /dev/kvm" in named("accelerator").found


def test_what_the_probe_found_is_told(kvm: Path, tmp_path: Path) -> None:
    assert "not known yet" in named("accelerator", tmp_path).found
    answer = {"name": "tcg", "reason": "a guest did not get through boot"}
    cache = {"key": {"boot": accelerator.boot_id()}, "answer": answer}
    (tmp_path / "accelerator.json").write_text(json.dumps(cache))
    check = named("accelerator", tmp_path)
    assert check.state == "warning" and check.found == "TCG: a guest did not get through boot"


@needs_root
def test_a_state_directory_that_qemu_cannot_reach(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    check = named("state directory", tmp_path / "deep" / "state")
    assert check.state == "broken" and check.remedy.startswith("chmod o+x /")


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_doctor, "MINIMUM_FREE_MIB", 10**9)
    check = named("disk space")
    assert check.state == "broken" and "lab image prune" in check.remedy


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_doctor, "MINIMUM_MEMORY_MIB", 10**9)
    assert named("memory").state == "warning"


def test_ports_that_the_kernel_hands_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_doctor, "EPHEMERAL_PORTS", tmp_path / "range")
    (tmp_path / "range").write_text("32768\t60999\n")
    assert named("ports").state == "ok"
    (tmp_path / "range").write_text("1024\t65535\n")
    assert named("ports").state == "warning"


def test_io_uring_that_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "switch").write_text("2\n")
    monkeypatch.setattr(capabilities, "_IO_URING_DISABLED", tmp_path / "switch")
    assert named("io_uring").state == "warning"


@needs_root
def test_no_tun_device_means_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_doctor, "TUN", tmp_path / "tun")
    check = named("network")
    assert check.state == "broken" and check.remedy == "modprobe tun"


def test_a_check_that_itself_fails_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_doctor, "EPHEMERAL_PORTS", tmp_path / "absent")
    check = named("ports")
    assert check.state == "broken" and check.why and check.remedy


@pytest.mark.parametrize(("found", "code"), [(FINE, 0), (FULL, 5)])
def test_the_exit_code_and_json_are_for_programs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Check,
    code: int,
) -> None:
    monkeypatch.setenv("LAB_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(host_doctor, "checks", lambda *_: [found])
    with pytest.raises(typer.Exit) as left:
        doctor(as_json=True)
    assert left.value.exit_code == code
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] == (code == 0)
    assert [check["name"] for check in report["checks"]][-1] == "labs"
    with pytest.raises(typer.Exit):
        doctor()
    assert ("mend: lab image prune" in capsys.readouterr().out) == (code == 5)
