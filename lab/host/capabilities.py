"""What this host's QEMU, libvirt and kernel can do: probed, never assumed from a distribution."""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Literal

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.host.accelerator import AcceleratorName

Version = tuple[int, int, int]
Fabric = Literal["namespace", "sockets"]

_SYS_IO_URING_SETUP = 425
_IO_URING_PARAMS_BYTES = 120
_HINT = "`lab doctor` says what libvirt lacks"
_IO_URING_DISABLED = Path("/proc/sys/kernel/io_uring_disabled")


@dataclass(frozen=True)
class Capabilities:
    """Features are gated on these and on nothing else.

    `fabric` is what segments are made of: taps in a network namespace, which only root may make,
    or else sockets between QEMUs.
    """

    qemu_version: Version
    libvirt_version: Version
    accelerator: AcceleratorName
    io_uring: bool
    fabric: Fabric


def probe_capabilities(uri: str, accelerator: AcceleratorName, deadline: Deadline) -> Capabilities:
    """Ask the libvirt at `uri` for its versions, and the kernel for the rest.

    Raises LabError where libvirt does not answer, DeadlineExceeded where it hangs.
    """
    qemu_version, libvirt_version = versions(uri, deadline)
    return Capabilities(
        qemu_version=qemu_version,
        libvirt_version=libvirt_version,
        accelerator=accelerator,
        io_uring=io_uring_works(),
        fabric="namespace" if os.geteuid() == 0 else "sockets",
    )


def versions(uri: str, deadline: Deadline) -> tuple[Version, Version]:
    """The QEMU that the libvirt at `uri` would run, and its own version."""
    answers: Queue[tuple[Version, Version] | Exception] = Queue()
    # libvirt's calls have no time-out; a daemon thread does not keep the program from ending.
    Thread(target=_ask_versions, args=(uri, answers), daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.remaining_s)
    except Empty:
        raise DeadlineExceeded(
            f"{uri} does not answer", hint=_HINT, elapsed_s=deadline.elapsed_s
        ) from None
    if isinstance(answer, Exception):
        raise LabError(f"{uri} does not answer: {answer}", hint=_HINT) from answer
    return answer


def _ask_versions(uri: str, answers: Queue[tuple[Version, Version] | Exception]) -> None:
    import libvirt

    # Errors are raised; printing them as well is libvirt's default.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        connection = libvirt.openReadOnly(uri)
        try:
            answers.put((_version(connection.getVersion()), _version(connection.getLibVersion())))
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        answers.put(error)


def io_uring_works() -> bool:
    """Whether the kernel lets an unprivileged process (QEMU) set up an io_uring."""
    try:
        # 1: only a privileged group may; 2: nobody.
        if int(_IO_URING_DISABLED.read_text()) != 0:
            return False
    except FileNotFoundError:
        pass  # kernels before 6.6 have no such switch
    libc = ctypes.CDLL(None, use_errno=True)
    params = ctypes.create_string_buffer(_IO_URING_PARAMS_BYTES)
    descriptor = libc.syscall(_SYS_IO_URING_SETUP, 1, params)
    if descriptor < 0:
        return ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM)
    os.close(descriptor)
    return True


def _version(number: int) -> Version:
    """libvirt's way of writing 7.2.22 is 7002022."""
    return number // 1_000_000, number // 1_000 % 1_000, number % 1_000
