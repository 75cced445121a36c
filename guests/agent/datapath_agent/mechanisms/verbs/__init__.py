"""Asynchronous QP modify, as proposed for WinVerbs: a work item for the kernel, or the caller.

Linux has no overlapped modify: each is one system call, run to its end in the caller. The
kernel's work item is played by threads, and ctypes lets go of the GIL while they are in the
call. pyverbs does not, which is why its own calls are refused for user=async.
"""

from __future__ import annotations

from datapath_agent.mechanism import NULL_S, Mechanism
from datapath_agent.parameters import Parameter
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

# With all steps of a few queue pairs between two looks, a run still stops within 0.1 s.
LONGEST_DELAY_US = 2500

POLICIES = (
    Parameter(
        "user", str, "sync",
        "wait for each transition before the next, or keep a window of queue pairs in flight",
        choices=("sync", "async"),
    ),
    Parameter(
        "kernel", str, "sync",
        "the caller's thread makes the call, or a work item does; hinted: a work item only if "
        "user=async; io_wq: a worker thread of the kernel's own, through io_uring",
        choices=("sync", "workitem", "hinted", "io_wq"),
    ),
)  # fmt: skip

PARAMETERS = (
    Parameter("qps", int, 2000, "queue pairs each process takes through their states", 1, 1 << 20),
    Parameter("procs", int, 1, "processes side by side", choices=(1, 2, 4)),
    Parameter("window", int, 64, "queue pairs in flight a process, for user=async", 1, 4096),
    Parameter(
        "create", str, "outside", "create and destroy queue pairs in the timed loop, or outside it",
        choices=("outside", "in_loop"),
    ),
    Parameter(
        "op", str, "rxe",
        "what a transition is: ibv_modify_qp, nothing, or a sleep that stands for a device",
        choices=("rxe", "null", "delay"),
    ),
    Parameter("delay_us", int, 50, "the sleep of op=delay", 1, LONGEST_DELAY_US),
    Parameter(
        "call", str, "ctypes", "how ibv_modify_qp is called: ctypes lets go of the GIL",
        choices=("ctypes", "pyverbs"),
    ),
    Parameter("device", str, "rxe0", "RDMA device of this guest"),
    Parameter("gid_address", str, "", "IPv4 address whose RoCE v2 GID to use, if several"),
    Parameter("sample_every", int, 8, "time the transitions of every so many queue pairs", 1, 1000),
    NULL_S,
)  # fmt: skip

PRESETS = {
    "sync_sync": {"user": "sync", "kernel": "sync"},
    "sync_workitem": {"user": "sync", "kernel": "workitem"},
    "async_sync": {"user": "async", "kernel": "sync"},
    "async_workitem": {"user": "async", "kernel": "workitem"},
    "hinted": {"kernel": "hinted"},
}


def check(policy: dict[str, Any], parameters: dict[str, Any]) -> None:
    def refuse(name: str, reason: str) -> None:
        raise Fault("inexpressible", reason, field=f"parameters.{name}")

    if policy["user"] == "async":
        if parameters["call"] == "pyverbs":
            refuse("call", "pyverbs holds the GIL across ibv_modify_qp: transitions cannot overlap")
        if parameters["window"] == 1:
            refuse("window", "with one queue pair in flight, async is sync")
        if parameters["window"] > parameters["qps"]:
            refuse("window", f"{parameters['qps']} queue pairs are never that many in flight")
    if policy["kernel"] == "io_wq":
        if parameters["op"] == "delay":
            refuse("op", "the kernel's own workers can be given a verb, but no sleep")
        if parameters["call"] == "pyverbs":
            refuse("call", "the kernel's own workers are given the verb's command, not a call")
    if parameters["op"] != "rxe" and parameters["call"] == "pyverbs":
        refuse("call", f"op={parameters['op']} calls no verb")
    if parameters["op"] == "null" and parameters["create"] == "in_loop":
        refuse("create", "op=null is the harness alone and has no queue pairs to create")


def _run(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.mechanisms.verbs.measure import measure  # the host only checks

    return measure(run, policy, parameters)


MECHANISM = Mechanism(
    "queue pairs through INIT, RTR, RTS and ERR, issued in place or through a work queue",
    "WinVerbs asynchronous QP modify, [ofw] list",
    POLICIES,
    PARAMETERS,
    PRESETS,
    check,
    _run,
)
