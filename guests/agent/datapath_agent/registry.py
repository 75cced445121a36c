"""Every workload by name: one file and one line here each, beside those of the mechanisms."""

from __future__ import annotations

import sys

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.workload import Workload

WORKLOADS = {
    "disk": ("datapath_agent.workloads.disk", "DISK"),
    "fio": ("datapath_agent.workloads.fio", "FIO"),
    "iperf3-client": ("datapath_agent.workloads.iperf3", "CLIENT"),
    "iperf3-server": ("datapath_agent.workloads.iperf3", "SERVER"),
    "perftest-client": ("datapath_agent.workloads.perftest", "CLIENT"),
    "perftest-server": ("datapath_agent.workloads.perftest", "SERVER"),
    "rping-client": ("datapath_agent.workloads.rping", "CLIENT"),
    "rping-server": ("datapath_agent.workloads.rping", "SERVER"),
    "sockperf-client": ("datapath_agent.workloads.sockperf", "CLIENT"),
    "sockperf-server": ("datapath_agent.workloads.sockperf", "SERVER"),
    "udp-rr-client": ("datapath_agent.workloads.udp_rr", "CLIENT"),
    "udp-rr-server": ("datapath_agent.workloads.udp_rr", "SERVER"),
}


def find(name: object) -> Workload:
    """The workload of that name, imported now. Raises Fault if there is none."""
    if isinstance(name, str) and name in WORKLOADS:
        module, attribute = WORKLOADS[name]
        __import__(module)
        workload: Workload = getattr(sys.modules[module], attribute)
        return workload
    from datapath_agent import mechanisms
    from datapath_agent.mechanism import SERVER_SUFFIX, workloads

    if isinstance(name, str):
        base = name[: -len(SERVER_SUFFIX)] if name.endswith(SERVER_SUFFIX) else name
        mechanism = mechanisms.find(base)
        found = workloads(base, mechanism) if mechanism else {}
        if name in found:
            return found[name]
    known = ", ".join([*mechanisms.names(), *WORKLOADS])
    raise Fault(
        "unknown-workload", f"no workload {name!r:.60}; there are {known}", field="workload"
    )


def describe() -> str:
    """What `datapath-agent list` prints."""
    lines = [describe_mechanisms()]
    for name in WORKLOADS:
        lines += workload_lines(name, find(name))
    return "\n".join(lines)


def describe_mechanisms() -> str:
    """Every mechanism with its policies, presets and parameters."""
    from datapath_agent import mechanisms

    return "\n".join(
        line for name in mechanisms.names() for line in mechanism_lines(name, mechanisms.find(name))
    )


def workload_lines(name: str, workload: Any, without: tuple[str, ...] = ()) -> list[str]:
    """`workload` called `name`, with its parameters but for those called in `without`."""
    parameters = [each for each in workload.parameters if each.name not in without]
    return [f"{name}: {workload.summary}", *(f"    {_words(each)}" for each in parameters)]


def mechanism_lines(name: str, mechanism: Any, without: tuple[str, ...] = ()) -> list[str]:
    """As `workload_lines`, with policies and presets as well."""
    lines = [f"{name}: {mechanism.summary} [{mechanism.change}]", "    policies:"]
    lines += [f"        {_words(each)}" for each in mechanism.policies]
    lines.append("    presets:")
    for preset, policies in mechanism.presets.items():
        values = " ".join(f"{axis}={value}" for axis, value in policies.items())
        lines.append(f"        {preset}: {values}")
    lines.append("    parameters:")
    parameters = [each for each in mechanism.parameters if each.name not in without]
    return [*lines, *(f"        {_words(each)}" for each in parameters)]


def _words(parameter: Any) -> str:
    from datapath_agent.parameters import REQUIRED

    allowed = ""
    if parameter.choices:
        allowed = f" ({', '.join(map(str, parameter.choices))})"
    elif parameter.minimum is not None:
        allowed = f" ({parameter.minimum} .. {parameter.maximum})"
    default = "required" if parameter.default is REQUIRED else f"default {parameter.default!r}"
    return f"{parameter.name}: {parameter.help}{allowed}; {default}"
