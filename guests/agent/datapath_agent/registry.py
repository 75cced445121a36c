"""Every workload by name: one file and one line here each."""

from __future__ import annotations

import sys

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datapath_agent.workload import Workload

WORKLOADS = {
    "fio": ("datapath_agent.workloads.fio", "FIO"),
    "iperf3-client": ("datapath_agent.workloads.iperf3", "CLIENT"),
    "iperf3-server": ("datapath_agent.workloads.iperf3", "SERVER"),
    "perftest-client": ("datapath_agent.workloads.perftest", "CLIENT"),
    "perftest-server": ("datapath_agent.workloads.perftest", "SERVER"),
    "sockperf-client": ("datapath_agent.workloads.sockperf", "CLIENT"),
    "sockperf-server": ("datapath_agent.workloads.sockperf", "SERVER"),
    "udp-rr-client": ("datapath_agent.workloads.udp_rr", "CLIENT"),
    "udp-rr-server": ("datapath_agent.workloads.udp_rr", "SERVER"),
}


def find(name: object) -> Workload:
    """The workload of that name, imported now. Raises Fault if there is none."""
    if not isinstance(name, str) or name not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise Fault(
            "unknown-workload", f"no workload {name!r:.60}; there are {known}", field="workload"
        )
    module, attribute = WORKLOADS[name]
    __import__(module)
    workload: Workload = getattr(sys.modules[module], attribute)
    return workload


def describe() -> str:
    """What `datapath-agent list` prints."""
    from datapath_agent.parameters import REQUIRED

    lines = []
    for name in WORKLOADS:
        workload = find(name)
        lines.append(f"{name}: {workload.summary}")
        for each in workload.parameters:
            choices = f" ({', '.join(each.choices)})" if each.choices else ""
            default = "required" if each.default is REQUIRED else f"default {each.default!r}"
            lines.append(f"    {each.name}: {each.help}{choices}; {default}")
    return "\n".join(lines)
