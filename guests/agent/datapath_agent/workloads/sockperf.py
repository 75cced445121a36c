"""UDP latency through sockperf: ping-pong, or under a load of messages at a rate."""

from __future__ import annotations

import re

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

_PERCENTILE_NAMES = {
    "25.000": "p25",
    "50.000": "p50",
    "75.000": "p75",
    "90.000": "p90",
    "99.000": "p99",
    "99.900": "p99_9",
    "99.990": "p99_99",
    "99.999": "p99_999",
}
_NUMBER = r"\s*=\s*([0-9.]+)"


def _serve(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    address, port = parameters["address"], parameters["port"] or free_port("udp")
    output = run_tool(
        run,
        ["sockperf", "server", "-i", address, "-p", str(port)],
        listening=Listening("udp", address, port),
    )
    if not run.stop_reason:
        raise failed("sockperf", output)
    return result([], raw=output.stdout, command=output.command)


def _connect(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    mode = parameters["mode"]
    argv = ["sockperf", mode, "-i", parameters["address"], "-p", str(parameters["port"])]
    # Whole seconds are all that sockperf can measure.
    argv += ["-t", f"{max(1, round(parameters['runtime_s']))}"]
    argv += ["-m", str(parameters["message_bytes"]), "--full-rtt"]
    if mode == "under-load":
        argv += ["--mps", str(parameters["messages_per_s"]), "--reply-every", "1"]
    output = run_tool(run, argv)
    if output.status != 0 and not run.stop_reason:
        raise failed("sockperf", output)
    return result(parse(output.stdout), raw=output.stdout, command=output.command)


def parse(stdout: str) -> list[dict[str, Any]]:
    """Round trip figures and message counts of a client's report."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", stdout)
    for complaint in ("No messages were received", "No valid observations found"):
        if complaint in text:
            raise Fault("no-answer", f"sockperf: {complaint.lower()}", detail=last_lines(text))
    try:
        duration = _find(r"\[Valid Duration\] RunTime=([0-9.]+) sec", text)
        received = _find(r"\[Valid Duration\].*ReceivedMessages=([0-9]+)", text)
        figures = {
            "min": _find(f"<MIN> observation{_NUMBER}", text),
            "mean": _find("avg-rtt=([0-9.]+)", text),
            **{
                name: _find(f"percentile {re.escape(printed)}{_NUMBER}", text)
                for printed, name in _PERCENTILE_NAMES.items()
            },
            "max": _find(f"<MAX> observation{_NUMBER}", text),
        }
        return [
            metric("round_trips_per_s", "1/s", HIGHER, received / duration),
            *(metric(f"rtt_{name}", "us", LOWER, value) for name, value in figures.items()),
            metric("dropped", "messages", LOWER, _find("# dropped messages = ([0-9]+)", text)),
        ]
    except (ValueError, ZeroDivisionError) as error:
        raise Fault(
            "bad-output", f"sockperf's report cannot be read: {error}", detail=last_lines(text)
        ) from None


def _find(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"no {pattern!r} in it")
    return float(match[1])


SERVER = Workload(
    "answers sockperf's UDP messages until stopped",
    (Parameter("address", str, REQUIRED, "the guest's own address to listen on"), PORT_TO_SERVE),
    _serve,
)
CLIENT = Workload(
    "UDP round trips to a sockperf server",
    (
        Parameter("address", str, REQUIRED, "address of the server"),
        PORT_OF_PEER,
        Parameter(
            "mode", str, "ping-pong", "one in flight or a rate", choices=("ping-pong", "under-load")
        ),
        RUNTIME_S,
        Parameter("message_bytes", int, 64, "bytes a message", 14, 65507),
        Parameter("messages_per_s", int, 1000, "rate under-load", 1, 10_000_000),
    ),
    _connect,
)
