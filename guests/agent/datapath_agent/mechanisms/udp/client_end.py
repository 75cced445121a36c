"""A run of the mechanism at the client's end."""

from __future__ import annotations

from datapath_agent.measurement.percentiles import latency_metrics
from datapath_agent.mechanism import measure_harness, mechanism_result
from datapath_agent.mechanisms.udp.bulk import Bulk
from datapath_agent.mechanisms.udp.end import LOOK_S, End
from datapath_agent.mechanisms.udp.figures import (
    LAYER,
    counters,
    requests_a_second,
    secnetperf_lines,
)
from datapath_agent.mechanisms.udp.null import WHAT, null_cost, null_requests
from datapath_agent.mechanisms.udp.requests import Requests, now_us
from datapath_agent.mechanisms.udp.sockets import connected
from datapath_agent.mechanisms.udp.wire import DATAGRAM_BYTES
from datapath_agent.protocol import Fault
from datapath_agent.team import Member, Team
from datapath_agent.workload import HIGHER, LOWER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.mechanism import Harness
    from datapath_agent.mechanisms.udp.end import Process, Report
    from datapath_agent.mechanisms.udp.lanes import Sender
    from datapath_agent.run import Run


def measure(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """One run. Raises Fault, with what was measured, when the server goes away."""
    run.progress("null runs")
    harness = measure_harness(WHAT, lambda: null_cost(policy, parameters))
    if parameters["op"] == "null":
        reports = [_told(null_requests(policy, parameters, parameters["runtime_s"]), None, "")]
    else:
        run.progress(f"{policy['send']} sends, {policy['recv']} receives")
        reports = _real(run, policy, parameters)
    outcome = _result(reports, parameters, harness)
    gone = [report["gone"] for report in reports if report.get("gone")]
    if gone:
        fault = Fault("peer-gone", gone[0])
        fault.partial = outcome
        raise fault
    return outcome


def _real(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> list[Report]:
    workers = parameters["workers"]
    endpoints = connected(parameters["address"], parameters["port"], parameters["connections"])
    # Connection i belongs to worker i modulo their number.
    end = End(
        policy, parameters, [endpoints[at::workers] for at in range(workers)], is_server=False
    )

    def make(worker: int, senders: list[Sender]) -> Requests:
        if parameters["mode"] == "bulk":
            return Bulk(senders)
        return Requests(
            senders,
            answer_bytes=parameters["response_bytes"],
            request_bytes=parameters["request_bytes"],
            in_flight=(parameters["in_flight"] + workers - 1 - worker) // workers,
        )

    def live(member: Member, process: Process, protocol: Requests) -> Report:
        turn = process.events.turn
        member.ready()  # and the datapath, where that is another process
        protocol.open(turn, lambda: member.should_stop)
        load_us = now_us() + int(parameters["idle_s"] * 1e6)
        while now_us() < load_us and not member.should_stop:
            turn(min(LOOK_S, max(0.0, (load_us - now_us()) / 1e6)))
        process.restart()
        gone = ""
        try:
            protocol.load(turn, lambda: member.should_stop, parameters["runtime_s"])
        except Fault as fault:
            gone = fault.message
        return _told(protocol, process, gone)

    try:
        with Team(run) as team:
            end.fork(team, make, live)
            team.start()
            return list(team.collect().values())
    finally:
        end.close()


def _told(protocol: Requests, process: Process | None, gone: str) -> Report:
    return {
        "samples_us": protocol.samples_us,
        "start_us": protocol.start_us,
        "end_us": protocol.end_us,
        "lost": protocol.lost,
        "late": protocol.late,
        "delivered": protocol.delivered if isinstance(protocol, Bulk) else 0,
        "gone": gone,
        "counted": process.counted() if process else {},
    }


def _result(reports: list[Report], parameters: dict[str, Any], harness: Harness) -> dict[str, Any]:
    workers = [report for report in reports if "samples_us" in report]
    samples_us = [sample for report in workers for sample in report["samples_us"]]
    is_bulk = parameters["mode"] == "bulk" and parameters["op"] == "real"
    done = sum(report["delivered"] for report in workers) if is_bulk else len(samples_us)
    runtime_us = max(report["end_us"] for report in workers) - min(
        report["start_us"] for report in workers
    )
    lost = sum(report["lost"] for report in workers)
    if not done:
        raise Fault("no-answer", f"nothing was answered, {lost} lost")
    counted = counters([report["counted"] for report in reports if report["counted"]], done)
    counted["late"] = sum(report["late"] for report in workers)
    if is_bulk:
        goodput_mbps = done * DATAGRAM_BYTES * 8 / max(1, runtime_us)
        return mechanism_result(
            [
                metric("delivered_mbps", "Mb/s", HIGHER, goodput_mbps),
                metric("lost", "datagrams", LOWER, lost),
            ],
            counters=counted,
            fidelity="model",
            layer=LAYER,
            harness=harness,
        )
    rps = requests_a_second(done, runtime_us)
    # By Little's law: where the client did something else meanwhile, they disagree.
    mean_us = sum(samples_us) / len(samples_us)
    counted["littles_law_error"] = abs(parameters["in_flight"] / rps * 1e6 / mean_us - 1)
    return mechanism_result(
        [
            metric("rps", "1/s", HIGHER, rps),
            *latency_metrics(samples_us),
            metric("lost", "requests", LOWER, lost),
        ],
        counters=counted,
        fidelity="model",
        layer=LAYER,
        harness=harness,
        samples={"latency_us": samples_us},
        lines=secnetperf_lines(rps, samples_us),
    )
