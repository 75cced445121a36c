"""What figures depend on besides what was changed: taken with a run, compared before its figures.

A difference in topology or agent may be the very thing that two runs compare. Any other (another
CPU, kernel, QEMU, image, ...) makes their figures those of two different machines.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lab.deadline import Deadline
from lab.guest.agent_file import agent_bytes
from lab.host.capabilities import versions

if TYPE_CHECKING:
    from lab.preparation import Prepared

# What two runs may be meant to differ in.
SUBJECTS = frozenset({"topology", "agent"})
MISSING = "nothing"
VERSIONS_S = 30.0
_CPUINFO = Path("/proc/cpuinfo")
_VULNERABILITIES = Path("/sys/devices/system/cpu/vulnerabilities")


def take(prepared: Prepared) -> dict[str, str]:
    """The fingerprint of a run of `prepared` on this host, a word or line a field.

    Raises LabError where libvirt does not answer.
    """
    qemu, libvirt = versions(prepared.uri, Deadline(VERSIONS_S))
    return {
        **host(_CPUINFO, _VULNERABILITIES),
        "qemu": ".".join(map(str, qemu)),
        "libvirt": ".".join(map(str, libvirt)),
        "accelerator": prepared.machine.accelerator,
        **{f"image {image.name}": image.digest for image in prepared.images.values()},
        "topology": hashlib.sha256(prepared.loaded.text.encode()).hexdigest(),
        "agent": hashlib.sha256(agent_bytes()).hexdigest(),
    }


def host(cpuinfo: Path, vulnerabilities: Path) -> dict[str, str]:
    """CPU, microcode, kernel and a field for each mitigation (Linux: sysfs-devices-system-cpu)."""
    text = cpuinfo.read_text()
    mitigations = sorted(vulnerabilities.iterdir()) if vulnerabilities.is_dir() else []
    return {
        "cpu": _field(text, "model name") or platform.machine(),
        "microcode": _field(text, "microcode") or "unknown",
        "kernel": platform.release(),
        **{f"mitigation {path.name}": path.read_text().strip() for path in mitigations},
    }


def differences(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Each field that differs, with both values: `kernel: 6.1.0-28, then 6.12.9`."""
    return [
        f"{name}: {a.get(name, MISSING)}, then {b.get(name, MISSING)}"
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    ]


def obstacles(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """The differences for which figures must not be compared."""
    return differences(_without_subjects(a), _without_subjects(b))


def subjects(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """The names of the differences that may be what is compared: topology, agent."""
    return [name for name in sorted(SUBJECTS) if a.get(name) != b.get(name)]


def _without_subjects(fingerprint: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in fingerprint.items() if name not in SUBJECTS}


def _field(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else None
