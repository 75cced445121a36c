"""What the lab needs of a host, each need checked: what is wrong, why it matters, what mends it.

Nothing here changes the host, and every check ends by itself within a second or so.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from lab.deadline import Deadline
from lab.errors import LabError
from lab.host import accelerator, libvirt_daemon
from lab.host.capabilities import io_uring_works, versions
from lab.process import run

MINIMUM_PYTHON = (3, 11)
MINIMUM_QEMU = (7, 2, 0)
MINIMUM_LIBVIRT = (9, 0, 0)
# An image is built (2 GiB while it is), and two guests write into their overlays.
MINIMUM_FREE_MIB = 4 * 1024
# The two guests of topologies/default.yaml.
MINIMUM_MEMORY_MIB = 2 * 1024
MIB = 1024**2
VERSION_S = 1.5

SETUP = "make setup"
TUN = Path("/dev/net/tun")
EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")

PROGRAMS = {
    "qemu-img": "makes the guests' disks",
    "mmdebstrap": "builds guest images",
    "mke2fs": "builds guest images",
    "zstd": "unpacks guest kernels",
    "ssh": "is what `lab ssh` runs",
    "virt-xml-validate": "checks the domains in the tests",
}


@dataclass(frozen=True)
class Check:
    """One precondition. `why` and `remedy` (a command, where there is one) say more if not ok.

    A warning costs speed or fidelity; what is broken keeps labs from coming up.
    """

    name: str
    state: Literal["ok", "warning", "broken"]
    found: str
    why: str = ""
    remedy: str = ""

    @property
    def ok(self) -> bool:
        return self.state != "broken"


def checks(state_dir: Path, ports: range) -> list[Check]:
    """Every precondition, in the order in which a bring-up meets them.

    `ports` are those that guests' ssh may be reached on. A check that itself fails is broken.
    """
    every: dict[str, Callable[[], Check]] = {
        "python": _python,
        "qemu": _qemu,
        "libvirt": _libvirt,
        "programs": _programs,
        "kvm": _kvm,
        "accelerator": lambda: _accelerator(state_dir),
        "io_uring": _io_uring,
        "network": _network,
        "disk space": lambda: _disk_space(state_dir),
        "state directory": lambda: _state_directory(state_dir),
        "memory": _memory,
        "ports": lambda: _ports(ports),
    }
    found = []
    for name, check in every.items():
        try:
            found.append(check())
        except (LabError, OSError) as error:
            why = "this could not be checked, so it is not known to work"
            hint = getattr(error, "hint", None) or "mend what is named, and run lab doctor again"
            found.append(Check(name, "broken", str(error), why, hint))
    return found


def _python() -> Check:
    ok = sys.version_info >= MINIMUM_PYTHON
    return Check(
        "python",
        "ok" if ok else "broken",
        platform.python_version(),
        "" if ok else "the lab needs Python 3.11",
        "" if ok else "make clean setup, with a newer python3 first on PATH",
    )


def _qemu() -> Check:
    if not shutil.which(accelerator.QEMU):
        return Check("qemu", "broken", "not installed", "it runs the guests", SETUP)
    said = run([accelerator.QEMU, "--version"], deadline=Deadline(VERSION_S)).stdout
    match = re.search(r"version (\d+)\.(\d+)\.(\d+)", said)
    if not match:
        return Check("qemu", "broken", f"no version in {said[:60]!r}", "it runs the guests", SETUP)
    version = tuple(map(int, match.groups()))
    if version < MINIMUM_QEMU:
        why = f"the lab needs QEMU {_dotted(MINIMUM_QEMU)}"
        return Check("qemu", "broken", _dotted(version), why, SETUP)
    return Check("qemu", "ok", _dotted(version))


def _libvirt() -> Check:
    daemon = next((each for each in libvirt_daemon.HYPERVISORS if each.path), None)
    if not daemon:
        return Check("libvirt", "broken", "not installed", "it owns the guests", SETUP)
    libvirt_daemon.check_runtime_dir()
    answering = next((each for each in libvirt_daemon.HYPERVISORS if each.answers), None)
    if not answering:
        if os.geteuid() == 0 and Path("/run/systemd/system").is_dir():
            return Check(
                "libvirt",
                "broken",
                "its sockets do not answer",
                "systemd is in charge of libvirt here, so the lab does not start it",
                "systemctl start libvirtd.socket virtlogd.socket",
            )
        return Check("libvirt", "ok", f"{daemon.program}, not running: the lab will start it")
    if os.geteuid() == 0 and libvirt_daemon.kvm_trap():
        # Asking would take ten seconds and more.
        return Check("libvirt", "warning", "running, not asked", "see kvm below", "see kvm below")
    _, version = versions(libvirt_daemon.uri_of(answering), Deadline(VERSION_S))
    if version < MINIMUM_LIBVIRT:
        why = f"the lab needs libvirt {_dotted(MINIMUM_LIBVIRT)}"
        return Check("libvirt", "broken", _dotted(version), why, SETUP)
    return Check("libvirt", "ok", f"{_dotted(version)}, running")


def _programs() -> Check:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        why = "; ".join(f"{name} {PROGRAMS[name]}" for name in missing)
        return Check("programs", "broken", f"not installed: {', '.join(missing)}", why, SETUP)
    return Check("programs", "ok", ", ".join(PROGRAMS))


def _kvm() -> Check:
    if refusal := accelerator.kvm_refusal():
        user = pwd.getpwuid(os.geteuid()).pw_name
        return Check(
            "kvm",
            "warning",
            refusal,
            "guests are emulated (TCG), many times slower",
            f"usermod --append --groups kvm {user}, and log in again"
            if accelerator.KVM.exists()
            else "modprobe kvm_intel or kvm_amd, or switch virtualisation on in the firmware",
        )
    if os.geteuid() == 0 and (trapped := libvirt_daemon.kvm_trap()):
        return Check(
            "kvm",
            "warning",
            f"/dev/kvm is {trapped}",
            "QEMU's user may not open it, which makes libvirt probe QEMU dozens of times over:"
            " a guest would take minutes to start (`lab up` mends this by itself)",
            f"chgrp kvm {accelerator.KVM} && chmod 0660 {accelerator.KVM}",
        )
    return Check("kvm", "ok", "/dev/kvm can be opened")


def _accelerator(state_dir: Path) -> Check:
    if refusal := accelerator.kvm_refusal():
        answer: accelerator.Accelerator | None = accelerator.Accelerator("tcg", refusal)
    else:
        answer = accelerator.cached_answer(state_dir)
    if not answer:
        return Check("accelerator", "ok", "not known yet: `lab up` will boot a guest to find out")
    if answer.name == "tcg":
        return Check(
            "accelerator",
            "warning",
            f"TCG: {answer.reason}",
            "figures are those of an emulated CPU: compare them with their like only",
            "a host whose KVM executes guests",
        )
    return Check("accelerator", "ok", f"KVM: {answer.reason}")


def _io_uring() -> Check:
    if io_uring_works():
        return Check("io_uring", "ok", "allowed")
    return Check(
        "io_uring",
        "warning",
        "not allowed here",
        "disks with `aio: io_uring` cannot be had",
        "sysctl kernel.io_uring_disabled=0 (in a container: its seccomp profile)",
    )


def _network() -> Check:
    if os.geteuid() != 0:
        return Check("network", "ok", "segments over sockets (taps need root)")
    why = "the guests' data networks are taps in a network namespace"
    if not TUN.exists():
        return Check("network", "broken", f"there is no {TUN}", why, "modprobe tun")
    try:
        os.close(os.open(TUN, os.O_RDWR))
        run(["unshare", "--net", "true"], deadline=Deadline(2))
    except (OSError, LabError) as error:
        return Check(
            "network", "broken", str(error), why, "in a container: give it CAP_NET_ADMIN, SYS_ADMIN"
        )
    return Check("network", "ok", "taps and network namespaces")


def _disk_space(state_dir: Path) -> Check:
    free_mib = shutil.disk_usage(_existing(state_dir)).free // MIB
    if free_mib < MINIMUM_FREE_MIB:
        return Check(
            "disk space",
            "broken",
            f"{free_mib} MiB free below {state_dir}",
            f"images and overlays need {MINIMUM_FREE_MIB} MiB",
            "lab image prune, or set LAB_STATE_DIR to a larger file system",
        )
    return Check("disk space", "ok", f"{free_mib // 1024} GiB free below {state_dir}")


def _state_directory(state_dir: Path) -> Check:
    existing = _existing(state_dir)
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(
            "state directory",
            "broken",
            f"{existing} may not be written by this user",
            "labs are recorded there",
            "set LAB_STATE_DIR to a directory of your own",
        )
    closed = [path for path in (existing, *existing.parents) if not path.stat().st_mode & 0o001]
    if os.geteuid() == 0 and closed:
        return Check(
            "state directory",
            "broken",
            f"{closed[-1]} is closed to other users",
            "libvirt runs QEMU as another user, who must reach the disks",
            f"chmod o+x {closed[-1]}, or set LAB_STATE_DIR elsewhere",
        )
    return Check("state directory", "ok", str(state_dir))


def _memory() -> Check:
    available_mib = psutil.virtual_memory().available // MIB
    if available_mib < MINIMUM_MEMORY_MIB:
        return Check(
            "memory",
            "warning",
            f"{available_mib} MiB available",
            f"two guests of the default topology need {MINIMUM_MEMORY_MIB} MiB",
            "end other programs, or give the guests less",
        )
    return Check("memory", "ok", f"{available_mib} MiB available")


def _ports(ports: range) -> Check:
    first, _ = map(int, EPHEMERAL_PORTS.read_text().split())
    if first < ports.stop:
        return Check(
            "ports",
            "warning",
            f"the kernel hands out ports from {first} on",
            f"guests' ssh uses {ports.start} to {ports.stop - 1} on 127.0.0.1: one may be taken",
            "sysctl net.ipv4.ip_local_port_range='32768 60999'",
        )
    return Check("ports", "ok", f"{ports.start} to {ports.stop - 1} on 127.0.0.1")


def _existing(path: Path) -> Path:
    """The nearest directory above that is there."""
    return next(each for each in (path, *path.parents) if each.exists())


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
