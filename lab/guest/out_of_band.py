"""A guest through QEMU's guest agent: works with its network down and sshd gone.

Source: the QEMU Guest Agent Protocol Reference (guest-ping, guest-exec, guest-exec-status).
"""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from lab.deadline import Deadline
from lab.errors import LabError
from lab.guest.ssh import Finished
from lab.plan import GuestPlan
from lab.providers.libvirt.provider import LibvirtProvider

ANSWER_S = 30


class OutOfBand:
    """Commands to one guest over its virtio-serial channel."""

    def __init__(self, provider: LibvirtProvider, guest: GuestPlan) -> None:
        self._provider = provider
        self._guest = guest

    def ping(self, deadline: Deadline) -> None:
        """Return once the guest agent answers; it starts some time after sshd does."""
        last: LabError | None = None

        def answers() -> bool:
            nonlocal last
            try:
                self._ask("guest-ping")
            except LabError as error:
                last = error
                return False
            return True

        try:
            deadline.poll(answers, "the guest agent", interval_s=0.5)
        except LabError as error:
            error.detail = str(last)
            raise

    def run(self, argv: list[str], deadline: Deadline) -> Finished:
        """Run a program in the guest to its end, without a shell."""
        start_s = time.monotonic()
        pid = self._ask("guest-exec", {"path": argv[0], "arg": argv[1:], "capture-output": True})[
            "pid"
        ]
        status = deadline.poll(lambda: self._ended(pid), f"{argv[0]} in the guest", interval_s=0.2)
        return Finished(
            " ".join(argv),
            status.get("exitcode", -status.get("signal", 0)),
            base64.b64decode(status.get("out-data", "")),
            base64.b64decode(status.get("err-data", "")),
            time.monotonic() - start_s,
        )

    def _ended(self, pid: int) -> dict[str, Any] | None:
        status: dict[str, Any] = self._ask("guest-exec-status", {"pid": pid})
        return status if status["exited"] else None

    def _ask(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        request: dict[str, Any] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        answer = self._provider.guest_agent(self._guest, json.dumps(request), ANSWER_S)
        return json.loads(answer)["return"]
