"""Memory for data buffers: refused where a guest has not got it, instead of being killed for it."""

from __future__ import annotations

from datapath_agent import disks
from datapath_agent.protocol import Fault

# Of what is available, the rest is left to everything else.
SHARE = 0.5


def check(needed_bytes: int, field: str) -> None:
    """Raise Fault naming `field` unless half of the available memory holds `needed_bytes`."""
    facts = dict(line.split(":", 1) for line in disks.read("/proc/meminfo").splitlines())
    available_bytes = int(facts["MemAvailable"].split()[0]) * 1024
    if needed_bytes > available_bytes * SHARE:
        raise Fault(
            "refused",
            f"{needed_bytes >> 20} MiB of buffers are more than half of the "
            f"{available_bytes >> 20} MiB that this guest has available",
            field=f"parameters.{field}",
        )
