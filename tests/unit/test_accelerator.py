"""The accelerator probe, with scripts in QEMU's place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.host import accelerator
from lab.host.accelerator import Accelerator, cached_answer, probe, scale_s

BOOTS = "echo SeaBIOS; echo LAB-PROBE-OK"
HANGS = "echo SeaBIOS; exec sleep 60"


@dataclass
class Host:
    """A host whose /dev/kvm and QEMU are ours."""

    directory: Path

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinux"

    def install_qemu(self, script: str) -> None:
        path = self.directory / "bin" / accelerator.QEMU
        path.write_text(f"#!/bin/sh\necho ran >>{self.directory}/runs\n{script}\n")
        path.chmod(0o755)

    @property
    def runs(self) -> int:
        runs = self.directory / "runs"
        return len(runs.read_text().split()) if runs.exists() else 0

    def probe(self, wanted: str = "auto", seconds: float = 30) -> Accelerator:
        return probe(
            self.kernel,
            self.kernel,
            self.state,
            wanted=wanted,  # type: ignore[arg-type]
            deadline=Deadline(seconds),
        )


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    (tmp_path / "bin").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "vmlinux").write_bytes(b"kernel")
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(accelerator, "KVM", tmp_path / "kvm")
    monkeypatch.setattr(accelerator, "PROBE_S", 0.5)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    host = Host(tmp_path)
    host.install_qemu(BOOTS)
    return host


def test_kvm_that_boots_a_guest_is_used(host: Host) -> None:
    assert host.probe().name == "kvm"
    assert host.probe("kvm").name == "kvm"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (HANGS, "did not get through boot under KVM"),
        ("kill -ABRT $$", "killed by SIGABRT"),
        ("exit 0", "exited with status 0: without a word"),
        ("echo 'failed to initialize kvm' >&2; exit 1", "status 1: failed to initialize kvm"),
    ],
)
def test_kvm_that_boots_none_is_not_and_the_reason_is_named(
    host: Host, script: str, reason: str
) -> None:
    host.install_qemu(script)
    found = host.probe()
    assert found.name == "tcg"
    assert reason in found.reason


def test_kvm_that_is_asked_for_never_falls_back(host: Host) -> None:
    host.install_qemu("exit 1")
    with pytest.raises(LabError, match="KVM was asked for and does not work"):
        host.probe("kvm")


def test_tcg_that_is_asked_for_boots_nothing(host: Host) -> None:
    assert host.probe("tcg").name == "tcg"
    assert host.runs == 0


def test_without_kvm_nothing_is_booted(host: Host) -> None:
    accelerator.KVM.unlink()
    assert host.probe() == Accelerator("tcg", "there is no /dev/kvm")
    assert host.runs == 0


def test_the_answer_is_kept(host: Host) -> None:
    first = host.probe()
    assert host.probe() == first == cached_answer(host.state)
    assert host.runs == 1


@pytest.mark.parametrize("change", ["qemu", "kernel", "host kernel", "boot", "cache"])
def test_the_answer_is_kept_only_for_what_it_was_found_with(
    host: Host, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    host.probe()
    match change:
        case "qemu":
            host.install_qemu("exit 1")
        case "kernel":
            host.kernel.write_bytes(b"another kernel")
        case "host kernel":
            monkeypatch.setattr("platform.release", lambda: "6.99")
        case "boot":
            monkeypatch.setattr(accelerator, "boot_id", lambda: "another boot")
            assert cached_answer(host.state) is None
        case "cache":
            (host.state / "accelerator.json").write_text("{")
    host.probe()
    assert host.runs == 2


def test_a_probe_cut_short_says_nothing_about_kvm(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "PROBE_S", 20)
    host.install_qemu(HANGS)
    with pytest.raises(DeadlineExceeded):
        host.probe(seconds=0.3)
    assert cached_answer(host.state) is None


def test_timeouts_scale_with_the_accelerator() -> None:
    assert scale_s(5, "kvm") == 5
    assert scale_s(5, "tcg") == 20
