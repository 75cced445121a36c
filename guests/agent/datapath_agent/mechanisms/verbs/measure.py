"""A run: processes that start together, and what their reports come to."""

from __future__ import annotations

import errno

from datapath_agent import rdma
from datapath_agent.measurement.percentiles import percentile
from datapath_agent.measurement.usage import total
from datapath_agent.mechanism import measure_harness, mechanism_result
from datapath_agent.mechanisms.verbs import capacity
from datapath_agent.mechanisms.verbs.attributes import TRANSITIONS
from datapath_agent.mechanisms.verbs.cells import uses_workers
from datapath_agent.mechanisms.verbs.work import at_once, needs_device, null_loop, work
from datapath_agent.protocol import Fault
from datapath_agent.team import Team
from datapath_agent.workload import HIGHER, LOWER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

_LAYERS = {
    "rxe": "real ibv_modify_qp calls on soft-RoCE, run to completion in the thread that makes them",
    "null": "no verb is called: the cost of this harness alone",
    "delay": "declared synthetic: a transition is a sleep that stands for a device, not a verb",
}


def measure(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    gid = None
    if needs_device(parameters):
        from datapath_agent.mechanisms.verbs.queue_pairs import load_pyverbs

        gid = rdma.roce_v2_gid(parameters["device"], parameters["gid_address"])
        count = at_once(policy, parameters)
        capacity.refuse_too_many(count, parameters["procs"], capacity.limits())
        load_pyverbs()

    def null_run() -> tuple[int, float]:
        with Team(run) as team:
            team.fork("null", lambda member: null_loop(member, policy, parameters))
            team.start()
            report = team.collect()["null"]
        return report["transitions"], report["elapsed_s"]

    harness = measure_harness(
        "a transition of the same cell that calls a C function which returns at once, one process",
        null_run,
    )
    with Team(run) as team:
        for number in range(parameters["procs"]):
            team.fork(f"process {number}", lambda member: work(member, policy, parameters, gid))
        run.progress(f"{parameters['procs']} processes make their queue pairs")
        team.start()
        reports = list(team.collect().values())
    finished = sum(report["finished"] for report in reports)
    if not finished:
        raise Fault("internal", "no queue pair had gone through its states before the run's end")
    samples_ns = {
        f"{name}_ns": [each for report in reports for each in report["samples_ns"][name]]
        for name in TRANSITIONS
    }
    counters = _counters(reports, finished)
    return mechanism_result(
        _metrics(reports, finished, samples_ns, counters),
        counters=counters,
        fidelity="emulated" if parameters["op"] == "rxe" else "model",
        layer=_layer(policy, parameters),
        harness=harness,
        samples=samples_ns,
        raw={"failures": _failures(reports)},
    )


def _elapsed_s(reports: list[dict[str, Any]]) -> float:
    """From the first process's begin to the last one's end: start-up skew gains nothing."""
    starts_s: list[float] = [report["start_s"] for report in reports]
    ends_s: list[float] = [report["end_s"] for report in reports]
    return max(ends_s) - min(starts_s)


def _counters(reports: list[dict[str, Any]], finished: int) -> dict[str, float]:
    used = total([report["used"] for report in reports])
    modifies = len(TRANSITIONS) * finished
    under_way: dict[int, int] = {}
    for report in reports:
        for number, count in enumerate(report["under_way"]):
            under_way[number] = under_way.get(number, 0) + count
    overlapped = sum(count for number, count in under_way.items() if number > 1)
    switches = used["voluntary_switches"] + used["involuntary_switches"]
    return {
        "modifies": modifies,
        "workers": reports[0]["workers"],
        "overlapped_modifies": overlapped,
        "overlapped_share": overlapped / modifies,
        # Within one process: several processes always overlap.
        "most_under_way": max((n for n, count in under_way.items() if count), default=1),
        "longest_queue": max(report["longest_queue"] for report in reports),
        "switches_per_modify": switches / modifies,
        "voluntary_switches": used["voluntary_switches"],
        "involuntary_switches": used["involuntary_switches"],
        "cpu_us_per_modify": 1e6 * (used["user_s"] + used["system_s"]) / modifies,
        "checked_final_states": sum(report["checked"] for report in reports),
        "wrong_final_states": sum(sum(report["wrong"].values()) for report in reports),
        "failed_modifies": sum(len(report["failed"]) for report in reports),
    }


def _metrics(
    reports: list[dict[str, Any]],
    finished: int,
    samples_ns: dict[str, list[int]],
    counters: dict[str, float],
) -> list[dict[str, Any]]:
    elapsed_s = _elapsed_s(reports)
    used = total([report["used"] for report in reports])
    metrics = [metric("qps", "QPs/s", HIGHER, finished / elapsed_s)]
    for name in TRANSITIONS:
        if ordered := sorted(samples_ns[f"{name}_ns"]):
            metrics += [
                metric(f"{name}_p50", "us", LOWER, percentile(ordered, 0.5) / 1000),
                metric(f"{name}_p99", "us", LOWER, percentile(ordered, 0.99) / 1000),
            ]
    cpu_percent = 100 * (used["user_s"] + used["system_s"]) / elapsed_s
    failures = counters["failed_modifies"] + counters["wrong_final_states"]
    return [
        *metrics,
        metric("cpu", "%", LOWER, cpu_percent),
        metric("failures", "", LOWER, failures),
        metric("elapsed", "s", LOWER, elapsed_s),
    ]


def _failures(reports: list[dict[str, Any]]) -> dict[str, int]:
    """What failed, and how often."""
    counts: dict[str, int] = {}
    for report in reports:
        for status in report["failed"]:
            what = f"ibv_modify_qp: {errno.errorcode.get(status, status)}"
            counts[what] = counts.get(what, 0) + 1
        for what, count in report["wrong"].items():
            counts[what] = counts.get(what, 0) + count
    return counts


def _layer(policy: dict[str, Any], parameters: dict[str, Any]) -> str:
    layer = _LAYERS[parameters["op"]]
    if uses_workers(policy):
        layer += "; the kernel's work item is a thread of this process, not the kernel's"
    if policy["kernel"] == "io_wq":
        layer += "; made by the kernel's own worker threads, which take them first in first out"
    if parameters["op"] == "rxe" and parameters["call"] == "pyverbs":
        layer += "; called through pyverbs, which holds the GIL"
    return layer
