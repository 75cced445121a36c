"""`lab ssh`, `exec` and `console`: into a guest."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import Annotated

import typer

from lab.cli.options import seconds_option
from lab.deadline import Deadline

FOLLOW_INTERVAL_S = 0.2

GuestArgument = Annotated[str, typer.Argument(help="The guest's name.")]
LabOption = Annotated[str | None, typer.Option("--lab", help="The lab, where several are up.")]


def ssh(
    guest: GuestArgument,
    lab: LabOption = None,
) -> None:
    """An interactive shell in a guest, by the host's ssh client."""
    from lab.running import find

    with find(lab) as running:
        target = running.guest(guest).target
        known_hosts = running.keyring.known_hosts
    argv = [
        "ssh", "-i", str(target.key), "-p", str(target.port),
        "-o", "IdentitiesOnly=yes",
        "-o", f"UserKnownHostsFile={known_hosts}",
        "-o", "StrictHostKeyChecking=yes",
        "-o", "KexAlgorithms=curve25519-sha256",
        f"{target.user}@127.0.0.1",
    ]  # fmt: skip
    os.execvp("ssh", argv)


def exec_(
    guest: GuestArgument,
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    lab: LabOption = None,
    timeout: Annotated[str, typer.Option(help="The command's deadline.")] = "1h",
) -> int:
    """Run a command in a guest; its output and exit status are the command's own.

    Standard input is not passed on.
    """
    from lab.running import find

    deadline = Deadline(seconds_option("--timeout", timeout))
    # One word is taken as shell text, as ssh does; several as one command's arguments.
    line = command[0] if len(command) == 1 else shlex.join(command)
    with find(lab) as running:
        done = (
            running.guest(guest)
            .session()
            .run(
                line,
                deadline=deadline,
                on_stdout=_writer(sys.stdout.fileno()),
                on_stderr=_writer(sys.stderr.fileno()),
            )
        )
    return done.returncode


def _writer(descriptor: int):  # type: ignore[no-untyped-def]
    def write(data: bytes) -> None:
        while data:
            data = data[os.write(descriptor, data) :]

    return write


def console(
    guest: GuestArgument,
    lab: LabOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until ctrl-C.")] = False,
    attach: Annotated[bool, typer.Option("--attach", help="Type into it (leave: ctrl-]).")] = False,
) -> None:
    """The guest's serial console, kept on disk from its first byte."""
    from lab.running import find

    with find(lab) as running:
        chosen = running.guest(guest)
        uri = running.record.uri
    if attach:
        os.execvp("virsh", ["virsh", "-c", uri, "console", chosen.plan.domain, "--force"])
    write = _writer(sys.stdout.fileno())
    shown = 0
    while True:
        data = chosen.console.read()
        write(data[shown:])
        shown = len(data)
        if not follow:
            return
        time.sleep(FOLLOW_INTERVAL_S)
