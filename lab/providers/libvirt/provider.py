"""Guests as transient libvirt domains: nothing of them is left in libvirt once they end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.deadline import Deadline
from lab.errors import LabError
from lab.images.image import GuestImage
from lab.plan import GuestPlan, Identity
from lab.process import tail
from lab.providers.libvirt.connection import connect, translated
from lab.providers.libvirt.domain import DirectBoot, DiskBoot, Machine, render


def qemu_pids(domain: str) -> Iterator[int]:
    """The processes of `domain`, whether or not libvirt knows of them (yet, or any more)."""
    marker = f"guest={domain},".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker in (entry / "cmdline").read_bytes():
                    yield int(entry.name)


class LibvirtProvider:
    """Domains of one lab over one connection; a context manager.

    With `bound`, libvirt itself destroys the domains when this process goes, even by SIGKILL
    (VIR_DOMAIN_START_AUTODESTROY).
    """

    def __init__(
        self, uri: str, identity: Identity, host: Machine | None = None, *, bound: bool = False
    ) -> None:
        self._uri = uri
        self._identity = identity
        self._host = host
        self._bound = bound
        self._connection = connect(uri)

    def define(self, guest: GuestPlan, image: GuestImage, boot: DirectBoot | DiskBoot) -> None:
        import libvirt

        assert self._host, "only a provider that knows its host can render"
        xml = render(guest, self._identity, image, boot, self._host)
        flags = libvirt.VIR_DOMAIN_START_PAUSED
        if self._bound:
            flags |= libvirt.VIR_DOMAIN_START_AUTODESTROY
        try:
            with translated("start QEMU", where=f"guest {guest.name}"):
                self._connection.createXML(xml, flags)
        except LabError as error:
            error.detail = "\n".join(filter(None, (error.detail, self._qemu_log(guest.domain))))
            error.hint = "`lab up --dry-run` prints the domain XML"
            raise

    def resume(self, guest: GuestPlan) -> None:
        with translated("resume", where=f"guest {guest.name}"):
            self._domain(guest.domain).resume()

    def check_alive(self, guest: GuestPlan) -> None:
        import libvirt

        try:
            state, reason = self._connection.lookupByName(guest.domain).state()
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise LabError(f"libvirt: {error}", where=f"guest {guest.name}") from error
            raise LabError(
                "QEMU has ended",
                where=f"guest {guest.name}",
                detail=self._qemu_log(guest.domain),
                hint=f"`lab down {self._identity.name}` and bring it up again;"
                f" until then the guest's console is in {guest.console_log}",
            ) from None
        if state == libvirt.VIR_DOMAIN_CRASHED:
            raise LabError(
                f"the guest panicked (libvirt's reason code {reason})",
                where=f"guest {guest.name}",
                hint=f"the guest's console is in {guest.console_log}",
            )

    def destroy(self, domain: str, deadline: Deadline) -> None:
        import libvirt

        # libvirt's own way gives QEMU ten seconds to end in good order, which a busy guest under
        # TCG takes; nothing of a lab's guest is kept, so there is nothing to wait for.
        for pid in qemu_pids(domain):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        def gone() -> bool:
            try:
                self._connection.lookupByName(domain).destroy()
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return True
                # OPERATION_INVALID: it is ending by itself. Others may pass, too: a domain that
                # libvirt is still starting, or a QEMU that does not die at once.
            return False

        deadline.poll(gone, f"domain {domain} to end")
        with contextlib.suppress(OSError):
            self._qemu_log_path(domain).unlink()

    def names(self) -> set[str]:
        """Every running domain of this connection, the lab's or not."""
        with translated("list domains"):
            return {domain.name() for domain in self._connection.listAllDomains()}

    def monitor(self, guest: GuestPlan, command: str) -> str:
        """QEMU's answer, JSON text, to one QMP command in JSON text."""
        import libvirt_qemu

        with translated(f"run QMP `{command}`", where=f"guest {guest.name}"):
            answer = libvirt_qemu.qemuMonitorCommand(self._domain(guest.domain), command, 0)
        return str(answer)

    def guest_agent(self, guest: GuestPlan, command: str, timeout_s: int) -> str:
        """The QEMU guest agent's answer, JSON text, to one command in JSON text."""
        import libvirt_qemu

        with translated(f"ask the guest agent `{command}`", where=f"guest {guest.name}"):
            domain = self._domain(guest.domain)
            return str(libvirt_qemu.qemuAgentCommand(domain, command, timeout_s, 0))

    def open_console(self, guest: GuestPlan) -> Any:
        """A virStream of the guest's serial console; whoever held it before is cut off."""
        import libvirt

        with translated("open the console", where=f"guest {guest.name}"):
            stream = self._connection.newStream(libvirt.VIR_STREAM_NONBLOCK)
            self._domain(guest.domain).openConsole(None, stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
            return stream

    def _domain(self, name: str) -> Any:
        with translated(f"find domain {name}", hint="`lab status` says which guests run"):
            return self._connection.lookupByName(name)

    def _qemu_log_path(self, domain: str) -> Path:
        if self._uri == "qemu:///system":
            return Path("/var/log/libvirt/qemu") / f"{domain}.log"
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "libvirt/qemu/log" / f"{domain}.log"

    def _qemu_log(self, domain: str) -> str | None:
        """The last lines QEMU itself wrote (its command line and libvirt's notes left out)."""
        try:
            lines = self._qemu_log_path(domain).read_text(errors="replace").splitlines()
        except OSError:
            return None
        said = [line for line in lines if line.startswith("qemu-system") or "reason=" in line]
        return tail("\n".join(said), 5) or None

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> LibvirtProvider:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
