"""What the host does besides: looked at before a boot's trials and during each of them.

Nothing is corrected for it: it is recorded with the samples, and a reader is warned.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

# The load average remembers the run's own last boot: what is looked at is this moment.
LOOK_S = 0.5
BUSY_SHARE = 0.15
STEAL_SHARE = 0.02
LOW_MEMORY_MIB = 1024


@dataclass
class Noise:
    """Shares are of all CPU time of the host between the block's start and its end."""

    shares: dict[str, float] = field(default_factory=dict)


@contextmanager
def observed() -> Iterator[Noise]:
    """`steal` and `busy` (any work, the guests' included) while the block runs."""
    noise = Noise()
    before = psutil.cpu_times()
    try:
        yield noise
    finally:
        after = psutil.cpu_times()
        spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
        # /proc/stat counts a guest's time as user's, too (proc(5)).
        total = sum(each for name, each in spent.items() if not name.startswith("guest"))
        if total > 0:
            idle = spent["idle"] + spent["iowait"]
            noise.shares = {
                "steal": round(spent["steal"] / total, 4),
                "busy": round(1 - idle / total, 4),
            }


def look() -> dict[str, float | str]:
    """The host before guests are started: what keeps it busy, free memory, governor."""
    with observed() as noise:
        time.sleep(LOOK_S)
    return {
        **noise.shares,
        "load_average": os.getloadavg()[0],
        "available_mib": psutil.virtual_memory().available // 1024**2,
        "governor": _governor(),
    }


def warnings(host: Mapping[str, float | str]) -> list[str]:
    """What makes figures of such a host worth less; each says what to do."""
    found = []
    busy, steal = float(host["busy"]), float(host["steal"])
    memory = float(host["available_mib"])
    if busy > BUSY_SHARE:
        found.append(f"the host was {busy:.0%} busy before the boot: end other work")
    if steal > STEAL_SHARE:
        found.append(f"{steal:.0%} of the CPU time is stolen: other machines run on this one")
    if memory < LOW_MEMORY_MIB:
        found.append(f"only {memory:.0f} MiB of memory free: the host may swap")
    if host["governor"] not in ("performance", "none"):
        found.append(
            f"CPU frequency governor {host['governor']}: `cpupower frequency-set -g performance`"
        )
    return found


def _governor() -> str:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        return path.read_text().strip()
    except OSError:
        return "none"
