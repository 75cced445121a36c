"""Data disks: found by their serial, and never touched if anything might live on them."""

from __future__ import annotations

import errno
import os

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SYS = "/sys"
DEV = "/dev"
PROC = "/proc"


def read(path: str) -> str:
    """A sysfs attribute, empty if it is not there."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def names() -> Iterator[str]:
    """Names of whole disks that sit on a controller: sda, vda; no loop devices or partitions."""
    for name in sorted(os.listdir(f"{SYS}/block")):
        if os.path.exists(f"{SYS}/block/{name}/device"):
            yield name


def serial(name: str) -> str:
    """The serial number: of a SCSI disk from its vital product data, else from sysfs."""
    try:
        with open(f"{SYS}/block/{name}/device/vpd_pg80", "rb") as file:
            page = file.read()
    except OSError:
        return read(f"{SYS}/block/{name}/serial")
    return page[4 : 4 + page[3]].decode(errors="replace").strip() if len(page) > 4 else ""


def claim(wanted_serial: str) -> str:
    """The device of the data disk with that serial, after every check that it is free to use.

    Raises Fault when there is no such disk, or it is mounted, the root disk, held by something
    else, or carries a partition table or a file system signature.
    """
    found = [name for name in names() if serial(name) == wanted_serial]
    if not found:
        known = ", ".join(filter(None, map(serial, names()))) or "none"
        raise Fault(
            "bad-parameter",
            f"no disk has the serial {wanted_serial!r}; this guest's serials: {known}",
            field="parameters.disk",
        )
    if len(found) > 1:
        raise _refused(wanted_serial, f"{' and '.join(found)} share this serial")
    name = found[0]
    for reason in _obstacles(name):
        raise _refused(f"{wanted_serial} ({name})", reason)
    return f"{DEV}/{name}"


def _refused(disk: str, reason: str) -> Fault:
    return Fault("refused", f"disk {disk} is not free: {reason}", field="parameters.disk")


def _obstacles(name: str) -> Iterator[str]:
    mounted = _mounted_numbers()
    for part in _parts(name):
        if part != name:
            yield "it has partitions"
        if read(f"{SYS}/block/{name}/dev") in mounted:
            yield "it is mounted"
    if os.path.isdir(f"{SYS}/block/{name}/holders") and os.listdir(f"{SYS}/block/{name}/holders"):
        yield "another device is built on it"
    device = f"{DEV}/{name}"
    try:
        # The kernel grants exclusive use only if nothing else (mount, swap, md) has it.
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        yield "it is in use" if error.errno == errno.EBUSY else f"{device}: {error.strerror}"
    signature = _signature(device)
    if signature:
        yield f"it carries {signature}"


def _parts(name: str) -> Iterator[str]:
    yield name
    for entry in os.listdir(f"{SYS}/block/{name}"):
        if os.path.exists(f"{SYS}/block/{name}/{entry}/partition"):
            yield entry


def _mounted_numbers() -> set[str]:
    """major:minor of every mounted file system; the root disk is one of them."""
    return {line.split()[2] for line in read(f"{PROC}/self/mountinfo").splitlines()}


def _signature(device: str) -> str:
    """What blkid recognises on `device`, empty for nothing."""
    import subprocess  # not needed to say hello

    for blkid in ("/usr/sbin/blkid", "/sbin/blkid"):
        if os.access(blkid, os.X_OK):
            break
    else:
        raise Fault("missing-tool", "this guest has no `blkid` to check the disk with")
    probe = subprocess.run(
        [blkid, "-p", "-o", "export", device], capture_output=True, text=True, errors="replace"
    )
    if probe.returncode == 2:  # nothing found
        return ""
    tags = dict(line.split("=", 1) for line in probe.stdout.splitlines() if "=" in line)
    if "PTTYPE" in tags:
        return f"a {tags['PTTYPE']} partition table"
    if "TYPE" in tags:
        return f"{tags['TYPE']} data"
    return "something that blkid finds ambiguous"
