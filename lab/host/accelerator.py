"""KVM or TCG: the one that gets a guest through boot.

/dev/kvm may open, and every query may say that KVM works, on a host where no guest ever gets
through boot under it. So a small guest is executed under KVM, under a deadline; the answer holds
for one boot of the host, one QEMU and one kernel.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.host.locks import locked
from lab.host.processes import boot_id
from lab.process import describe_status, run, tail

AcceleratorName = Literal["kvm", "tcg"]

QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
# The initramfs sees this word on its command line, prints the marker and powers off.
PROBE_WORD = "lab.probe"
MARKER = "LAB-PROBE-OK"
# Working KVM needs about a second, a nested one several.
PROBE_S = 20.0
TCG_SLOWNESS = 4.0


@dataclass(frozen=True)
class Accelerator:
    """What guests run under, and why."""

    name: AcceleratorName
    reason: str


def scale_s(seconds: float, accelerator: AcceleratorName) -> float:
    """A time-out that suits KVM, made to suit `accelerator`."""
    return seconds * TCG_SLOWNESS if accelerator == "tcg" else seconds


def probe(
    kernel: Path,
    initramfs: Path,
    state_dir: Path,
    *,
    wanted: Literal["auto", "kvm", "tcg"],
    deadline: Deadline,
) -> Accelerator:
    """The accelerator to use, found by booting `kernel` with `initramfs` under KVM.

    Raises LabError where KVM is `wanted` and does not work; it never falls back then. "auto"
    falls back to TCG with the reason, "tcg" tries nothing.
    """
    if wanted == "tcg":
        return Accelerator("tcg", "asked for")
    if refusal := kvm_refusal():
        found = Accelerator("tcg", refusal)
    else:
        with locked(state_dir / "locks" / "accelerator.lock", "probing KVM", deadline):
            found = _cached(state_dir / "accelerator.json", kernel, initramfs, deadline)
    if wanted == "kvm" and found.name != "kvm":
        raise LabError(
            f"KVM was asked for and does not work: {found.reason}",
            hint="`lab doctor` says more; --accel auto falls back to emulation",
        )
    return found


def kvm_refusal() -> str | None:
    """Why /dev/kvm cannot even be opened; None where it can."""
    if not KVM.exists():
        return "there is no /dev/kvm"
    if not os.access(KVM, os.R_OK | os.W_OK):
        return "/dev/kvm may not be opened by this user"
    return None


def cached_answer(state_dir: Path) -> Accelerator | None:
    """The last probe's answer, if it was given in this boot of the host."""
    try:
        cache = json.loads((state_dir / "accelerator.json").read_text())
        if cache["key"]["boot"] == boot_id():
            return Accelerator(**cache["answer"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _cached(path: Path, kernel: Path, initramfs: Path, deadline: Deadline) -> Accelerator:
    key = _key(kernel)
    try:
        cache = json.loads(path.read_text())
        if cache["key"] == key:
            return Accelerator(**cache["answer"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none yet, or not one of ours: probe
    answer = _execute(kernel, initramfs, deadline)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"key": key, "answer": asdict(answer)}))
    partial.rename(path)
    return answer


def _key(kernel: Path) -> dict[str, str]:
    """Everything that the answer depends on."""
    qemu = shutil.which(QEMU)
    return {
        "host_kernel": platform.release(),
        "boot": boot_id(),
        "qemu": _stamp(Path(qemu)) if qemu else "",
        # Images are content-addressed: hashing 40 MB again would slow every bring-up.
        "kernel": _stamp(kernel),
    }


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{path} {status.st_size} bytes, changed {status.st_mtime_ns}"


def _execute(kernel: Path, initramfs: Path, deadline: Deadline) -> Accelerator:
    limit = deadline.within(PROBE_S)
    try:
        done = run(
            [
                QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                "-machine", "q35,accel=kvm", "-cpu", "host", "-m", "256",
                "-kernel", kernel, "-initrd", initramfs,
                "-append", f"console=ttyS0 panic=-1 {PROBE_WORD}",
                "-serial", "stdio",
            ],
            deadline=limit,
            check=False,
        )  # fmt: skip
    except DeadlineExceeded:
        # Cut short by the caller's deadline, it would say nothing about KVM.
        deadline.check("the accelerator probe")
        reason = f"a guest did not get through boot under KVM in {PROBE_S:.0f} s"
        return Accelerator("tcg", reason)
    if MARKER in done.stdout:
        return Accelerator("kvm", f"a guest booted under KVM in {done.elapsed_s:.1f} s")
    said = tail(done.stderr, 1) or "without a word"
    return Accelerator("tcg", f"QEMU under KVM {describe_status(done.returncode)}: {said}")
