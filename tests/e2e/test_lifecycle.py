"""`lab up` and `lab down` as a user runs them: what they say, change, and leave behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.deadline import Deadline
from tests.e2e.support import COMMAND_S, LAB, ROOT, lab_command, wait_until_gone

NoTraces = Callable[[], None]


def status(name: str) -> dict[str, Any] | None:
    labs = json.loads(lab_command("status", "--json").stdout)["labs"]
    return next((lab for lab in labs if lab["name"] == name), None)


@pytest.fixture
def taken_down() -> Iterator[None]:
    """Whatever the test does, the lab `small` is gone after it."""
    yield
    lab_command("down", "small")


@pytest.mark.usefixtures("taken_down")
def test_up_twice_and_down_twice(small_topology: Path, no_traces: NoTraces) -> None:
    first = lab_command("up", str(small_topology))
    assert first.returncode == 0, first.stderr
    lab = status("small")
    assert lab and lab["guests"]["one"]["running"]
    phases = {"image", "overlay", "define", "kernel", "userspace", "ssh", "agent"}
    assert set(lab["guests"]["one"]["phases_s"]) == phases
    assert lab_command("exec", "--lab", "small", "one", "--", "touch", "/root/kept").returncode == 0

    again = lab_command("up", str(small_topology))
    assert again.returncode == 0, again.stderr
    assert "was up already" in again.stdout
    assert status("small") == lab
    assert lab_command("exec", "--lab", "small", "one", "--", "ls", "/root/kept").returncode == 0

    # From recorded state: the YAML is gone, and so is nothing else that `down` needs.
    small_topology.unlink()
    assert lab_command("down", str(small_topology)).stdout == "lab small is down\n"
    no_traces()
    down_again = lab_command("down", "small")
    assert (down_again.returncode, down_again.stdout) == (0, "lab small was not up\n")


@pytest.mark.usefixtures("taken_down")
def test_two_labs_of_one_topology_side_by_side(small_topology: Path, no_traces: NoTraces) -> None:
    commands = [
        subprocess.Popen([LAB, "up", small_topology, "--name", name], cwd=ROOT)
        for name in ("small-a", "small-b")
    ]
    try:
        assert [command.wait(COMMAND_S) for command in commands] == [0, 0]
        a, b = status("small-a"), status("small-b")
        assert a and b
        assert a["guests"]["one"]["ssh"] != b["guests"]["one"]["ssh"]
        assert a["guests"]["one"]["addresses"] != b["guests"]["one"]["addresses"]
        for name in ("small-a", "small-b"):
            said = lab_command("exec", "--lab", name, "one", "--", "cat", "/etc/hostname")
            assert said.stdout == "one\n"
    finally:
        for name in ("small-a", "small-b"):
            lab_command("down", name)
    no_traces()


def test_a_name_in_use_by_another_topology_is_refused(
    small_topology: Path, no_traces: NoTraces, tmp_path: Path
) -> None:
    assert lab_command("up", str(small_topology)).returncode == 0
    other = tmp_path / "other.yaml"
    other.write_text(small_topology.read_text().replace("64MiB", "65MiB"))
    refused = lab_command("up", str(other))
    assert refused.returncode == 2
    assert "different topology" in refused.stderr and "lab down small" in refused.stderr
    assert lab_command("down", "small").returncode == 0
    no_traces()


def test_dry_run_prints_and_creates_nothing(small_topology: Path, no_traces: NoTraces) -> None:
    shown = lab_command("up", str(small_topology), "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "ip netns add lab-small-" in shown.stdout
    assert "qemu-img create" in shown.stdout
    assert "<domain" in shown.stdout
    no_traces()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after_s", [0.5, 2.0, 5.0])
def test_interrupted_up_leaves_nothing(
    small_topology: Path, no_traces: NoTraces, number: signal.Signals, after_s: float
) -> None:
    command = subprocess.Popen(
        [LAB, "up", small_topology], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    time.sleep(after_s)
    command.send_signal(number)
    _, said = command.communicate(timeout=COMMAND_S)
    assert command.returncode == 128 + number, said
    assert "Traceback" not in said
    assert status("small") is None
    no_traces()


KILL_POINTS = 10


def test_kill_at_any_point_then_reap_leaves_nothing(no_traces: NoTraces, topologies: Path) -> None:
    """SIGKILL of `lab up` at ten points between its first moment and its last."""
    start_s = time.monotonic()
    whole = lab_command("up", str(topologies / "default.yaml"), "--name", "killed")
    took_s = time.monotonic() - start_s
    assert whole.returncode == 0, whole.stderr
    assert lab_command("down", "killed").returncode == 0
    no_traces()
    reaped = 0
    for point in range(KILL_POINTS):
        command = subprocess.Popen(
            [LAB, "up", topologies / "default.yaml", "--name", "killed"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(took_s * (point + 0.5) / KILL_POINTS)
        command.kill()
        if command.wait() == 0:
            # Quicker than the first time: the lab is up, and nobody's to reap.
            assert lab_command("down", "killed").returncode == 0
        said = lab_command("reap")
        assert said.returncode == 0, said.stderr
        reaped += "reaped killed" in said.stdout
        no_traces()
    # The points fall into the time when there is something to reap, too.
    assert reaped >= KILL_POINTS // 2


def test_killed_pytest_leaves_nothing(
    small_topology: Path, no_traces: NoTraces, tmp_path: Path
) -> None:
    """The lab of a test run goes with it: libvirt and the janitor own what it made."""
    test = tmp_path / "test_hang.py"
    test.write_text(
        "import pathlib, time\n"
        "def test_hang(lab):\n"
        f"    pathlib.Path({str(tmp_path / 'up')!r}).touch()\n"
        "    time.sleep(600)\n"
    )
    command = subprocess.Popen(
        [LAB.parent / "pytest", "-q", test, "--topology", small_topology, "--rootdir", tmp_path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    Deadline(COMMAND_S).poll((tmp_path / "up").exists, "the lab of the test to be up")
    command.kill()
    command.wait()

    wait_until_gone(no_traces, 30)


def test_an_expired_lease_is_reaped(small_topology: Path, no_traces: NoTraces) -> None:
    assert lab_command("up", str(small_topology), "--expires", "1s").returncode == 0
    time.sleep(1)
    assert "reaped small: its lease has expired" in lab_command("reap").stdout
    no_traces()


def test_a_broken_claim_is_reaped(no_traces: NoTraces) -> None:
    from lab.host.state import labs_dir

    (labs_dir() / "halfway").mkdir(parents=True)
    try:
        assert "reaped halfway" in lab_command("reap").stdout
    finally:
        shutil.rmtree(labs_dir() / "halfway", ignore_errors=True)
    no_traces()
