"""A run of the ring: its processes, its watch, and what they found."""

from __future__ import annotations

import os
from collections import Counter

from datapath_agent import disks
from datapath_agent.measurement.histogram import Histogram, bucket
from datapath_agent.measurement.percentiles import latency_metrics
from datapath_agent.mechanism import Harness, measure_harness, mechanism_result
from datapath_agent.mechanisms.vring import area_bytes, block_bytes_of
from datapath_agent.mechanisms.vring.device import Device
from datapath_agent.mechanisms.vring.load import DiskLoad, NullLoad
from datapath_agent.mechanisms.vring.memory import Memory
from datapath_agent.mechanisms.vring.stall import CAUSES, Watch
from datapath_agent.mechanisms.vring.submitter import Submitter
from datapath_agent.protocol import Fault
from datapath_agent.storage import room
from datapath_agent.storage.aio import open_direct
from datapath_agent.team import Team
from datapath_agent.workload import HIGHER, LOWER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

    Reports = dict[str, dict[str, Any]]

LAYER = (
    "L2: the ring's protocol between processes in user space, requests served by the guest's own "
    "disk; neither Windows StorPort nor its driver"
)
NULL_LAYER = (
    "L2 without a disk: the ring's protocol between processes in user space; neither Windows "
    "StorPort nor its driver"
)


def measure(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    _check_memory(parameters)
    harness = _harness(run, policy, parameters)
    fds: list[int] = []
    try:
        _open_disks(parameters, fds)
        reports, watch, elapsed_s = _trial(run, policy, parameters, fds)
    finally:
        for fd in fds:
            os.close(fd)
    return _result(policy, parameters, reports, watch, elapsed_s, harness)


def _check_memory(parameters: dict[str, Any]) -> None:
    """Refuse what this guest has no memory for, before it is killed for it."""
    if parameters["op"] == "null":
        return
    largest = max(parameters["block_bytes"], parameters["second_block_bytes"])
    needed = parameters["submitters"] * parameters["outstanding"] * largest
    room.check(needed, "submitters")


def _open_disks(parameters: dict[str, Any], fds: list[int]) -> None:
    """Add the disks to `fds`, one an HBA; none for op=null."""
    if parameters["op"] == "null":
        return
    for serial in parameters["disk"].split(","):
        fds.append(open_direct(disks.claim(serial), writing=True))
        if os.lseek(fds[-1], 0, os.SEEK_END) < parameters["region_mib"] << 20:
            raise Fault("bad-parameter", f"disk {serial} is smaller", field="parameters.region_mib")


def _harness(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> Harness:
    null_policy = {**policy, "kick": "fixed", "on_full": "busy", "on_reset": "nothing"}
    null_parameters = {
        **parameters, "op": "null", "runtime_s": parameters["null_s"], "trace": False,
        "operations": 0,
    }  # fmt: skip

    def once() -> tuple[int, float]:
        reports, _, elapsed_s = _trial(run, null_policy, null_parameters, [])
        return sum(report["requests"] for report in _submitters(reports)), elapsed_s

    return measure_harness(
        "a request through the ring with kick=fixed to a device that completes it at once", once
    )


def _trial(
    run: Run, policy: dict[str, Any], parameters: dict[str, Any], fds: list[int]
) -> tuple[Reports, Watch, float]:
    """One load from start to end: reports, what the watch saw, seconds to the last completion."""
    quota = -(-parameters["operations"] // parameters["submitters"])
    with (
        Memory(
            hbas=policy["hbas"],
            queues=policy["queues"],
            ring_size=parameters["ring_size"],
            submitters=parameters["submitters"],
            outstanding=parameters["outstanding"],
        ) as memory,
        Team(run) as team,
    ):
        # Before the first fork: a device writes to every submitter's buffers.
        loads = [
            _load(memory, number, policy, parameters, fds)
            for number in range(parameters["submitters"])
        ]
        for hba in range(policy["hbas"]):
            device = Device(
                memory,
                hba,
                event_idx=policy["suppress"] == "event_idx",
                serves_disk=bool(fds),
            )
            team.fork(f"device {hba}", device.live)
        for number, load in enumerate(loads):
            submitter = Submitter(
                memory, number, policy, load, quota=quota, traces=parameters["trace"]
            )
            _fork(team, f"submitter {number}", submitter)
        start_s = team.start()
        watch = Watch(
            memory,
            resets=policy["on_reset"] == "complete",
            stall_s=parameters["stall_s"],
            start_s=start_s,
            end_s=start_s + parameters["runtime_s"],
        )
        reports = team.collect(watch.look)
    last_ns = max((report["last_ns"] for report in _submitters(reports)), default=0)
    return reports, watch, max(1e-6, last_ns / 1e9 - start_s)


def _fork(team: Team, name: str, submitter: Submitter) -> None:
    try:
        team.fork(name, submitter.live)
    except Fault as fault:
        fault.field = "parameters.submitters"
        raise


def _load(
    memory: Memory,
    submitter: int,
    policy: dict[str, Any],
    parameters: dict[str, Any],
    fds: list[int],
) -> NullLoad | DiskLoad:
    if not fds:
        return NullLoad()
    hba = submitter % policy["hbas"]
    size = area_bytes(policy, parameters)
    return DiskLoad(
        memory,
        submitter,
        fd=fds[hba],
        start=submitter // policy["hbas"] * size,
        area_bytes=size,
        pattern=parameters["pattern"],
        block_bytes=block_bytes_of(submitter, policy, parameters),
        notify_fd=memory.completion_fds[hba],
    )


def _submitters(reports: Reports) -> list[dict[str, Any]]:
    return [report for name, report in reports.items() if name.startswith("submitter")]


def _result(
    policy: dict[str, Any],
    parameters: dict[str, Any],
    reports: Reports,
    watch: Watch,
    elapsed_s: float,
    harness: Harness,
) -> dict[str, Any]:
    submitters = _submitters(reports)
    total = {
        name: sum(report[name] for report in submitters)
        for name in (
            "requests", "kicks", "suppressed", "busy", "full_kicks", "stale", "wrong", "resets",
            "wrong_data", "wrong_blocks",
        )
    }  # fmt: skip
    requests = total["requests"]
    if not requests:
        raise Fault("no-answer", "no request was completed")
    latencies_us = [each // 1000 for report in submitters for each in report["latencies_ns"]]
    holds = {
        "submit_lock_hold": _histogram(submitters, "submit_hold_ns"),
        "complete_lock_hold": _histogram(submitters, "complete_hold_ns"),
    }
    stalls = watch.stalls
    transferred = sum(
        reports[f"submitter {number}"]["requests"] * block_bytes_of(number, policy, parameters)
        for number in range(parameters["submitters"])
        if f"submitter {number}" in reports
    )
    metrics = [
        metric("iops", "IOPS", HIGHER, requests / elapsed_s),
        *(
            [metric("throughput", "MiB/s", HIGHER, transferred / elapsed_s / 2**20)]
            if parameters["op"] == "real"
            else []
        ),
        *latency_metrics(latencies_us),
        metric("stalled", "trials", LOWER, int(bool(stalls))),
        metric("data_errors", "blocks", LOWER, total["wrong_data"] + total["wrong_blocks"]),
        *(
            metric(f"{name}_{word}", "ns", LOWER, histogram.percentile(quantile))
            for name, histogram in holds.items()
            for word, quantile in (("p50", 0.5), ("p99", 0.99))
        ),
    ]
    counters = {
        **total,
        "stalls": len(stalls),
        **{name: sum(stall.cause == cause for stall in stalls) for name, cause in CAUSES.items()},
        "late_looks": watch.late_looks,
        "duplicate_ids": _duplicates(submitters),
        "verified": int(all(report["verified"] for report in submitters)),
        "submitters": len(submitters),
        "device_wakeups": sum(
            report["woken"] for name, report in reports.items() if name.startswith("device")
        ),
        "elapsed_s": elapsed_s,
        "kicks_per_request": total["kicks"] / requests,
        "suppressed_per_request": total["suppressed"] / requests,
    }
    if stalls:
        first = stalls[0]
        counters["operations_to_first_stall"] = first.operations
        counters["requests_before_first_stall"] = first.operations_in_all
        counters["submitted_while_stalled"] = first.submitted_while
        counters["recovered"] = int(first.recovered_s is not None)
        counters["healed_itself"] = sum(stall.recovery == "itself" for stall in stalls)
        counters["healed_by_submission"] = sum(
            stall.recovery == "a kick after the reset" for stall in stalls
        )
        counters["forced_kicks"] = sum(stall.recovery == "a forced kick" for stall in stalls)
        if first.recovery_ms is not None:
            counters["recovery_ms"] = round(first.recovery_ms, 1)
        if first.kick_to_progress_ms is not None:
            counters["kick_to_progress_ms"] = round(first.kick_to_progress_ms, 1)
    return mechanism_result(
        metrics,
        counters=counters,
        fidelity="emulated",
        layer=LAYER if parameters["op"] == "real" else NULL_LAYER,
        harness=harness,
        samples={"latency_us": latencies_us},
        histograms=holds,
        lines=tuple(f"stall: {stall}" for stall in stalls),
    )


def _histogram(submitters: list[dict[str, Any]], name: str) -> Histogram:
    # Equal durations are counted first, which is done in C: a clock's steps are coarse.
    durations = Counter(value for report in submitters for value in report[name])
    counts: Counter[int] = Counter()
    for value, count in durations.items():
        counts[bucket(value)] += count
    return Histogram("ns", dict(counts))


def _duplicates(submitters: list[dict[str, Any]]) -> int:
    """How many requests got an id that another one of their queue has."""
    given: dict[int, list[int]] = {}
    for report in submitters:
        given.setdefault(report["queue"], []).extend(report["ids"])
    return sum(len(ids) - len(set(ids)) for ids in given.values())
