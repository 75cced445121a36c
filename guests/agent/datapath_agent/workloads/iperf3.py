"""Bulk TCP through iperf3."""

from __future__ import annotations

import json

from datapath_agent.listening import free_port
from datapath_agent.parameters import (
    PORT_OF_PEER,
    PORT_TO_SERVE,
    REQUIRED,
    RUNTIME_S,
    Parameter,
)
from datapath_agent.protocol import Fault
from datapath_agent.tool import Listening, failed, last_lines, run_tool
from datapath_agent.workload import HIGHER, LOWER, Workload, metric, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run


def _serve(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    address, port = parameters["address"], parameters["port"] or free_port("tcp")
    output = run_tool(
        run,
        ["iperf3", "--server", "--bind", address, "--port", str(port), "--json"],
        listening=Listening("tcp", address, port),
    )
    if not run.stop_reason:
        raise failed("iperf3", output)
    return result([], raw=output.stdout, command=output.command)


def _connect(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    argv = ["iperf3", "--client", parameters["address"], "--port", str(parameters["port"])]
    # Whole seconds are all that iperf3 can measure.
    argv += ["--time", f"{max(1, round(parameters['runtime_s']))}"]
    argv += ["--parallel", str(parameters["streams"]), "--json"]
    if parameters["omit_s"]:
        argv += ["--omit", str(parameters["omit_s"])]
    if parameters["reverse"]:
        argv.append("--reverse")
    output = run_tool(run, argv)
    metrics, raw = parse(output.stdout, is_partial=run.stop_reason is not None)
    return result(metrics, raw=raw, command=output.command)


def parse(stdout: str, *, is_partial: bool = False) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Metrics and the whole report. A client cut short knows only what it sent."""
    try:
        raw: dict[str, Any] = json.loads(stdout)
        problem = raw.get("error")
        if problem and not is_partial:
            raise Fault("tool-failed", f"iperf3: {problem}")
        sent, received = raw["end"]["sum_sent"], raw["end"]["sum_received"]
        measured = sent if is_partial else received
        metrics = [
            metric("throughput", "Gbit/s", HIGHER, measured["bits_per_second"] / 1e9),
            metric("retransmits", "segments", LOWER, sent["retransmits"]),
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Fault(
            "bad-output",
            f"iperf3's report cannot be read: {type(error).__name__}: {error}",
            detail=last_lines(stdout),
        ) from None
    return metrics, raw


SERVER = Workload(
    "receives bulk TCP until stopped, by iperf3",
    (Parameter("address", str, REQUIRED, "the guest's own address to listen on"), PORT_TO_SERVE),
    _serve,
)
CLIENT = Workload(
    "sends bulk TCP to an iperf3 server",
    (
        Parameter("address", str, REQUIRED, "address of the server"),
        PORT_OF_PEER,
        RUNTIME_S,
        Parameter("omit_s", int, 0, "seconds of slow start left out", 0, 60),
        Parameter("streams", int, 1, "connections at once", 1, 128),
        Parameter("reverse", bool, False, "the server sends"),
    ),
    _connect,
)
