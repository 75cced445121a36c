"""testinfra over the lab's own ssh session: one connection, and a deadline on every command."""

from __future__ import annotations

from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from lab.deadline import Deadline
from lab.guest.ssh import Session


class LabBackend(BaseBackend):  # type: ignore[misc]
    """Runs testinfra's commands in one guest; each must end within `command_s` seconds."""

    NAME = "lab"

    def __init__(self, guest: str, session: Session, command_s: float) -> None:
        super().__init__(guest)
        self._session = session
        self._command_s = command_s
        # Asking the guest for its locale would cost a start of python each session.
        self._encoding = "utf-8"

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        line = self.get_command(command, *args)
        done = self._session.run(line, deadline=Deadline(self._command_s))
        return self.result(done.returncode, line.encode(), done.stdout_bytes, done.stderr_bytes)


def inspect(guest: str, session: Session, command_s: float) -> Host:
    """A testinfra host for `guest`: `host.interface("lan0").addresses`, `host.run("...")`."""
    return Host(LabBackend(guest, session, command_s))
