"""RDMA connections through rping: the connection manager, then SEND, READ and WRITE in turn.

Each ping is a message to the server, which reads the client's buffer and writes it back; the
client validates what came. rping tells no times: the rate is over its whole life, with the
set-up of the connection, and says so.
"""

from __future__ import annotations

import time

from datapath_agent.listening import free_port
from datapath_agent.parameters import PORT_OF_PEER, PORT_TO_SERVE, REQUIRED, Parameter
from datapath_agent.protocol import Fault
from datapath_agent.tool import Listening, failed, last_lines, run_tool
from datapath_agent.workload import HIGHER, LOWER, Workload, metric, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

_PING = "ping data: "
# Said while the process still ends with status 0.
_MISMATCH = "data mismatch"
# rping shows the data of each ping, and the agent keeps no more than this of a tool.
_MOST_SHOWN_BYTES = 8 << 20

_SIZE = Parameter("message_bytes", int, 64, "bytes a ping", 16, 65536)


def _serve(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    port = parameters["port"] or free_port("tcp")
    argv = ["rping", "-s", "-a", parameters["address"], "-p", str(port)]
    argv += ["-S", str(parameters["message_bytes"])]
    output = run_tool(run, argv, listening=Listening("rdma_cm", parameters["address"], port))
    if output.status != 0 and not run.stop_reason:
        raise failed("rping", output)
    return result([], raw=output.stdout, command=output.command)


def _connect(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    shown = parameters["pings"] * (parameters["message_bytes"] + len(_PING))
    if shown > _MOST_SHOWN_BYTES:
        raise Fault(
            "bad-parameter",
            f"rping shows the data of each ping, here {shown} bytes; at most {_MOST_SHOWN_BYTES}",
            field="parameters.pings",
        )
    argv = command(parameters)
    start_s = time.monotonic()
    output = run_tool(run, argv)
    elapsed_s = time.monotonic() - start_s
    if output.status != 0 and not run.stop_reason:
        raise failed("rping", output)
    expected = None if run.stop_reason else parameters["pings"]
    validated = count(output.stdout, output.stderr, expected)
    return result(
        [
            metric("pings", "", HIGHER, validated),
            metric("pings_per_s_with_setup", "1/s", HIGHER, validated / elapsed_s),
            metric("elapsed_with_setup", "s", LOWER, elapsed_s),
        ],
        raw=last_lines(output.stdout),
        command=output.command,
    )


def command(parameters: dict[str, Any]) -> list[str]:
    return [
        "rping", "-c", "-v", "-V", "-a", parameters["address"], "-p", str(parameters["port"]),
        "-S", str(parameters["message_bytes"]), "-C", str(parameters["pings"]),
    ]  # fmt: skip


def count(stdout: str, stderr: str, expected: int | None) -> int:
    """Pings that came back as they were sent; Fault if one did not, or not all `expected` did."""
    if _MISMATCH in stdout + stderr:
        raise Fault("tool-failed", "rping got back other data than it sent")
    pings = sum(line.startswith(_PING) for line in stdout.splitlines())
    if expected is not None and pings != expected:
        raise Fault(
            "bad-output",
            f"rping ended well after {pings} of {expected} pings",
            detail=last_lines(stdout + stderr),
        )
    return pings


SERVER = Workload(
    "waits for one rping client",
    (Parameter("address", str, REQUIRED, "the guest's own address to listen on"), PORT_TO_SERVE,
     _SIZE),
    _serve,
    fidelity="emulated",
)  # fmt: skip
CLIENT = Workload(
    "RDMA connection and validated pings to an rping server, by rping",
    (
        Parameter("address", str, REQUIRED, "address of the server"),
        PORT_OF_PEER,
        Parameter("pings", int, 100, "pings to exchange", 1, 100_000),
        _SIZE,
    ),
    _connect,
    fidelity="emulated",
)
