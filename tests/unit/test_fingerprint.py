"""Fingerprints: what is taken of a host and a run, and which differences forbid a comparison."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.results import fingerprint

CPUINFO = "processor\t: 0\nmodel name\t: Imagined CPU @ 3.00GHz\nmicrocode\t: 0x2b\n\n"
TAKEN = {"cpu": "A", "kernel": "6.1", "image debian-12": "11", "topology": "t1", "agent": "a1"}


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    folder = tmp_path / "vulnerabilities"
    folder.mkdir()
    (folder / "meltdown").write_text("Mitigation: PTI\n")
    return folder


def test_the_host_is_told_by_cpu_microcode_kernel_and_mitigations(
    tmp_path: Path, sysfs: Path
) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    told = fingerprint.host(tmp_path / "cpuinfo", sysfs)
    assert told.pop("kernel")
    assert told == {
        "cpu": "Imagined CPU @ 3.00GHz",
        "microcode": "0x2b",
        "mitigation meltdown": "Mitigation: PTI",
    }


def test_a_host_that_tells_less_still_has_a_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    told = fingerprint.host(tmp_path / "cpuinfo", tmp_path / "none")
    assert told["cpu"] and told["microcode"] == "unknown"


def test_a_run_adds_versions_accelerator_images_topology_and_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fingerprint, "versions", lambda _uri, _deadline: ((7, 2, 22), (9, 0, 0)))
    prepared = SimpleNamespace(
        uri="test:///default",
        machine=SimpleNamespace(accelerator="tcg"),
        images={
            name: SimpleNamespace(name="debian-12", digest="d1" * 32)
            for name in ("client", "server")
        },
        loaded=SimpleNamespace(text="name: mine\n"),
    )
    taken = fingerprint.take(prepared)  # type: ignore[arg-type]
    assert taken["qemu"] == "7.2.22"
    assert taken["libvirt"] == "9.0.0"
    assert taken["accelerator"] == "tcg"
    assert taken["image debian-12"] == "d1" * 32
    assert all(isinstance(value, str) for value in taken.values())
    prepared.loaded.text += "guests: {}\n"
    assert fingerprint.subjects(taken, fingerprint.take(prepared)) == ["topology"]  # type: ignore[arg-type]


def test_each_difference_is_named_with_both_values() -> None:
    other = {**TAKEN, "kernel": "6.12"}
    assert fingerprint.differences(TAKEN, other) == ["kernel: 6.1, then 6.12"]
    assert fingerprint.differences(TAKEN, TAKEN) == []


def test_a_field_that_only_one_has_differs() -> None:
    more = {**TAKEN, "image other": "22"}
    assert fingerprint.differences(TAKEN, more) == ["image other: nothing, then 22"]
    assert fingerprint.obstacles(more, TAKEN) == ["image other: 22, then nothing"]


def test_topology_and_agent_may_differ_between_runs_that_are_compared() -> None:
    other = {**TAKEN, "topology": "t2", "agent": "a2"}
    assert fingerprint.obstacles(TAKEN, other) == []
    assert fingerprint.subjects(TAKEN, other) == ["agent", "topology"]
    assert len(fingerprint.differences(TAKEN, other)) == 2


@pytest.mark.parametrize("field", ["cpu", "kernel", "image debian-12"])
def test_anything_else_may_not(field: str) -> None:
    assert fingerprint.obstacles(TAKEN, {**TAKEN, field: "another"})
