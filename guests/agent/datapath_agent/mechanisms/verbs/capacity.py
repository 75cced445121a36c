"""How many queue pairs a guest can have at once: what runs out first, before it does."""

from __future__ import annotations

from collections import namedtuple

from datapath_agent.protocol import Fault

# Measured on rxe of Linux 6.1, in the kernel and the process, with what this agent keeps of each.
_KIB_A_PAIR = 20
# A process has this many mappings of its own; every queue pair adds its two rings.
_OTHER_MAPPINGS = 500
_MAPPINGS_A_PAIR = 2
# Left to the rest of the guest.
_SPARE_KIB = 64 << 10

Limits = namedtuple("Limits", ["available_kib", "most_mappings"])


def limits() -> Limits:
    """Of this guest, now."""
    with open("/proc/meminfo") as file:
        meminfo = dict(line.split(":") for line in file)
    with open("/proc/sys/vm/max_map_count") as file:
        return Limits(int(meminfo["MemAvailable"].split()[0]), int(file.read()))


def refuse_too_many(at_once: int, procs: int, there: Limits) -> None:
    """Raises Fault when `procs` processes cannot have `at_once` queue pairs each."""
    by_mappings = (there.most_mappings - _OTHER_MAPPINGS) // _MAPPINGS_A_PAIR
    by_memory = max(0, there.available_kib - _SPARE_KIB) // _KIB_A_PAIR // procs
    for most, reason in (
        (by_mappings, f"each maps {_MAPPINGS_A_PAIR} rings and vm.max_map_count is "
         f"{there.most_mappings}"),
        (by_memory, f"each takes {_KIB_A_PAIR} KiB, {there.available_kib >> 10} MiB are available "
         f"and {procs} processes share them"),
    ):  # fmt: skip
        if at_once > most:
            raise Fault(
                "refused",
                f"{at_once} queue pairs a process are more than the {most} it can have: {reason}",
                field="parameters.qps",
            )


def refuse_beyond_device(at_once: int, procs: int, most_qps: int) -> None:
    if at_once * procs > most_qps:
        raise Fault(
            "refused",
            f"{at_once} queue pairs in each of {procs} processes: the device has {most_qps}",
            field="parameters.qps",
        )
