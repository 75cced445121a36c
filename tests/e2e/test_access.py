"""Into the guests: exec, its exit status and streams, sessions with deadlines, SFTP, consoles."""

from __future__ import annotations

import re
import time

import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.guest.out_of_band import OutOfBand
from lab.guest.ssh import connect
from lab.running import RunningGuest, RunningLab
from tests.e2e.support import lab_command


def test_exec_passes_on_output_and_status(lab: RunningLab, server: RunningGuest) -> None:
    name = lab.record.identity.name
    done = lab_command(
        "exec", "--lab", name, "server", "--", "sh", "-c", "echo out; echo err >&2; exit 7"
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    listed = lab_command("exec", "--lab", name, "server", "--", "lsblk")
    assert listed.returncode == 0
    assert "sda" in listed.stdout


def test_exec_in_an_unknown_guest_is_the_users_mistake(lab: RunningLab) -> None:
    done = lab_command("exec", "--lab", lab.record.identity.name, "nobody", "--", "true")
    assert done.returncode == 2
    assert "client, server" in done.stderr


def test_output_is_streamed_while_the_command_runs(client: RunningGuest) -> None:
    arrivals: list[float] = []
    client.session().run(
        "for i in 1 2 3; do echo $i; sleep 1; done",
        deadline=Deadline(30),
        on_stdout=lambda _: arrivals.append(time.monotonic()),
    )
    assert arrivals[-1] - arrivals[0] > 1.5


def test_a_command_that_does_not_end_meets_its_deadline(client: RunningGuest) -> None:
    start_s = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="sleep 600"):
        client.session().run("sleep 600", deadline=Deadline(2))
    assert time.monotonic() - start_s < 5
    # The session is not spoilt by it.
    assert client.session().run("true", deadline=Deadline(30)).returncode == 0


def test_large_output_arrives_whole(client: RunningGuest) -> None:
    done = client.session().run("seq 1 200000", deadline=Deadline(120))
    assert done.stdout.splitlines() == [str(n) for n in range(1, 200001)]


def test_files_by_sftp(client: RunningGuest) -> None:
    data = bytes(range(256)) * 64
    with client.session().sftp() as sftp:
        with sftp.file("/root/file", "wb") as file:
            file.write(data)
        with sftp.file("/root/file", "rb") as file:
            assert file.read() == data


def test_another_host_key_is_refused(lab: RunningLab) -> None:
    client, server = lab.guest("client"), lab.guest("server")
    from dataclasses import replace

    impostor = replace(client.target, host_key=server.target.host_key)
    with pytest.raises(LabError, match="host key"):
        connect(impostor, Deadline(60))


def test_the_console_is_kept_from_its_first_byte(guest: RunningGuest) -> None:
    log = guest.console.read().decode(errors="replace")
    # The kernel's own warnings may come before the initramfs.
    assert re.match(r"LAB-PHASE initramfs|\[ +\d+\.\d+\] ", log)
    assert guest.console.milestones() >= {"initramfs", "userspace", "ready"}


def test_the_guest_agent_works_without_the_network(lab: RunningLab, client: RunningGuest) -> None:
    channel = OutOfBand(lab.provider, client.plan)
    channel.ping(lab.scaled(15))
    done = channel.run(["/usr/bin/hostname"], lab.scaled(15))
    assert (done.returncode, done.stdout) == (0, "client\n")
