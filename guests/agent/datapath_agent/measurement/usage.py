"""What a process used, from getrusage(2)."""

from __future__ import annotations

import resource

_FIELDS = {
    "voluntary_switches": "ru_nvcsw",
    "involuntary_switches": "ru_nivcsw",
    "user_s": "ru_utime",
    "system_s": "ru_stime",
}


def usage() -> dict[str, float]:
    """Context switches and CPU seconds of this process, all its threads, until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {name: getattr(used, field) for name, field in _FIELDS.items()}


def used_since(before: dict[str, float]) -> dict[str, float]:
    """What was used since `before = usage()`."""
    return {name: value - before[name] for name, value in usage().items()}


def total(each: list[dict[str, float]]) -> dict[str, float]:
    """The sum over several processes."""
    return {name: sum(used[name] for used in each) for name in _FIELDS}
