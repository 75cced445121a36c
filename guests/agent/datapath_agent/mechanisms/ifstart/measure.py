"""A run of the mechanism at the sending end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time

from datapath_agent.measurement.usage import usage, used_since
from datapath_agent.mechanism import measure_harness, mechanism_result
from datapath_agent.mechanisms.ifstart import figures, senders
from datapath_agent.mechanisms.ifstart.device import Nothing, Stream, connect
from datapath_agent.mechanisms.ifstart.memory import END_NS, START_NS, Memory
from datapath_agent.mechanisms.ifstart.null import WHAT, null_cost
from datapath_agent.mechanisms.ifstart.offload import offload
from datapath_agent.mechanisms.ifstart.receiver import LAYER
from datapath_agent.protocol import Fault
from datapath_agent.team import Team

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.mechanisms.ifstart.senders import Body, Report
    from datapath_agent.run import Run
    from datapath_agent.team import Member

NULL_LAYER = (
    "the mechanism's own code in its processes, with a device that takes every frame for nothing"
)
# For the receiving end to take what is under way, and answer; less when the run is to stop.
_ANSWER_S = 10.0
_STOPPED_ANSWER_S = 0.2


def measure(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """One run. Raises Fault, with what was measured, when the receiving end goes away."""
    run.progress("null runs")
    harness = measure_harness(WHAT, lambda: null_cost(policy, parameters))
    bins = int(parameters["runtime_s"] / parameters["bin_s"] + 1e-6)
    memory = Memory(
        bulk_senders=parameters["bulk_senders"],
        window_frames=parameters["window_frames"],
        bins=bins,
        bin_s=parameters["bin_s"],
    )
    run.progress(f"if_start {policy['if_start']}")
    try:
        if parameters["op"] == "null":
            reports, command = _load(run, memory, Nothing(), {**policy, **parameters}), ""
            received, gone = None, ""
        else:
            reports, received, gone, command = _real(run, memory, policy, parameters)
        sent = memory.bins()
        lasted_s = (time.monotonic_ns() - memory.words[START_NS]) / 1e9
    finally:
        memory.close()
    if gone or run.stop_reason:  # what was still to come is no interval of nothing
        sent = sent[: max(0, int(lasted_s / parameters["bin_s"]))]
    shown = received["bins"][:bins] if received else sent
    starts, histogram = figures.small_starts(reports, min(lasted_s, parameters["runtime_s"]))
    outcome = mechanism_result(
        [
            *figures.throughput(shown, parameters["bin_s"], parameters["line_rate_mbps"]),
            *starts,
        ],
        counters={
            **figures.counters(reports, received),
            "vcpus": len(os.sched_getaffinity(0)),
        },
        fidelity="model",
        layer=LAYER if parameters["op"] == "real" else NULL_LAYER,
        harness=harness,
        samples={
            "received_bytes_a_bin": received["bins"][:bins] if received else [],
            "sent_bytes_a_bin": sent,
        },
        histograms={"small_start": histogram},
        lines=(command,) if command else (),
    )
    if gone:
        fault = Fault("peer-gone", gone)
        fault.partial = outcome
        raise fault
    return outcome


def _real(
    run: Run, memory: Memory, policy: dict[str, Any], parameters: dict[str, Any]
) -> tuple[list[Report], Report | None, str, str]:
    """What the members report, what the receiving end does, why it is gone, if so, and the
    command that stands for what was done to the NIC."""
    with contextlib.ExitStack() as stack:
        # The NIC is as it was before anything else is waited for: a stopped run has little time.
        with offload(parameters["address"], parameters["tso"]) as command:
            endpoint = stack.enter_context(
                connect(
                    parameters["address"],
                    parameters["port"],
                    device_kib=parameters["device_kib"],
                    bin_s=parameters["bin_s"],
                )
            )
            reports = _load(run, memory, Stream(endpoint), {**policy, **parameters})
        gone = next((report["gone"] for report in reports if report["gone"]), "")
        if gone:
            return reports, None, gone, command
        answer = _answer(run, endpoint)
        if answer is None and not run.stop_reason:
            return reports, None, "it did not say what it has received", command
        return reports, answer, "", command


def _answer(run: Run, endpoint: socket.socket) -> Report | None:
    """What the receiving end saw; None if it does not say."""
    end_s = time.monotonic() + _ANSWER_S
    told = b""
    try:
        endpoint.shutdown(socket.SHUT_WR)
        endpoint.settimeout(0.05)
        while time.monotonic() < end_s:
            if run.stop_reason:
                end_s = min(end_s, time.monotonic() + _STOPPED_ANSWER_S)
            try:
                more = endpoint.recv(1 << 16)
            except (TimeoutError, socket.timeout):  # noqa: UP041 - two classes before 3.10
                continue
            if not more:
                answer: Report = json.loads(told)
                return answer
            told += more
    except (OSError, ValueError):
        pass
    return None


def _load(
    run: Run, memory: Memory, device: Stream | Nothing, given: dict[str, Any]
) -> list[Report]:
    """All members from warm-up to the end of the run; their reports."""
    bodies = _bodies(memory, device, given)
    with Team(run) as team:
        if given["concurrency"] == "threads":
            team.fork("all", _threads(memory, bodies))
        else:
            for name, body in bodies.items():
                team.fork(name, _process(memory, body))
        start_ns = int((team.start() + given["warmup_s"]) * 1e9)
        memory.words[END_NS] = start_ns + int(given["runtime_s"] * 1e9)
        memory.words[START_NS] = start_ns
        reports = list(team.collect().values())
    return [each for report in reports for each in report.get("all", [report])]


def _bodies(memory: Memory, device: Stream | Nothing, given: dict[str, Any]) -> dict[str, Body]:
    """Every member by name. Only a real device interrupts."""
    bulk, small = given["bulk_senders"], given["small_senders"]
    bodies = {f"bulk {at}": senders.bulk(at, memory, device, given) for at in range(bulk)}
    for at in range(bulk, bulk + small):
        bodies[f"small {at}"] = senders.small(at, memory, device, given)
    if given["if_start"] != "block":
        for at in range(given["taskq_threads"]):
            bodies[f"taskq {at}"] = senders.taskqueue(memory, device, given)
    if isinstance(device, Stream):
        bodies["completion"] = senders.completion(memory, device, given)
    if given["control_every_ms"]:
        bodies["control"] = senders.control(memory, given)
    return bodies


def _process(memory: Memory, body: Body) -> Callable[[Member], Report]:
    def live(member: Member) -> Report:
        before = usage()

        def wait() -> None:
            nonlocal before
            member.ready()
            before = usage()

        report = body(senders.Going(memory, wait, lambda: member.should_stop))
        return {**report, "used": used_since(before)}

    return live


def _threads(memory: Memory, bodies: dict[str, Body]) -> Callable[[Member], Report]:
    """All bodies in one process, so that the GIL is between them."""

    def live(member: Member) -> Report:
        reports: list[Report] = []
        is_open = threading.Event()
        arrived = threading.Semaphore(0)

        def wait() -> None:
            arrived.release()
            is_open.wait()

        going = senders.Going(memory, wait, lambda: member.should_stop)
        threads = [
            threading.Thread(target=lambda body=body: reports.append(body(going)))
            for body in bodies.values()
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            arrived.acquire()
        member.ready()
        before = usage()
        is_open.set()
        for thread in threads:
            thread.join()
        if len(reports) < len(threads):
            raise Fault("internal", "a thread has failed")
        reports[0]["used"] = used_since(before)
        return {"all": reports}

    return live
