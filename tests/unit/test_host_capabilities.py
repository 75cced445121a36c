"""Versions and features, probed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.host import capabilities
from lab.host.capabilities import io_uring_works, probe_capabilities, versions


def test_libvirts_own_answers_become_versions() -> None:
    # libvirt's test driver answers for a hypervisor of version 2 without any daemon.
    found = probe_capabilities("test:///default", "tcg", Deadline(5))
    assert found.qemu_version == (0, 0, 2)
    assert found.libvirt_version >= (9, 0, 0)
    assert found.accelerator == "tcg"
    assert found.fabric == ("namespace" if os.geteuid() == 0 else "sockets")


def test_a_libvirt_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(LabError, match=r"test\+unix:///default.* does not answer"):
        versions("test+unix:///default?socket=/nonexistent", Deadline(5))


def test_a_libvirt_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "_ask_versions", lambda *_: time.sleep(3))
    with pytest.raises(DeadlineExceeded, match="qemu:///system does not answer"):
        versions("qemu:///system", Deadline(0.1))


@pytest.mark.parametrize("setting", ["1", "2"])
def test_io_uring_that_only_some_may_use_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    switch = tmp_path / "io_uring_disabled"
    monkeypatch.setattr(capabilities, "_IO_URING_DISABLED", switch)
    without_switch = io_uring_works()
    switch.write_text("0\n")
    assert io_uring_works() == without_switch
    switch.write_text(setting)
    assert not io_uring_works()
