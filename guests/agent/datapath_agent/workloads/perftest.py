"""RDMA verbs through perftest: ib_write_bw and its relatives, over RoCE v2 and IPv4.

perftest's --out_json is not JSON in the versions that distributions ship (its keys are not
quoted), so its table is read: the heading names the columns.
"""

from __future__ import annotations

from datapath_agent import rdma
from datapath_agent.listening import free_port
from datapath_agent.parameters import PORT_OF_PEER, PORT_TO_SERVE, REQUIRED, Parameter
from datapath_agent.protocol import Fault
from datapath_agent.tool import Listening, failed, last_lines, run_tool
from datapath_agent.workload import HIGHER, LOWER, Workload, metric, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

_TESTS = (
    "ib_write_bw",
    "ib_write_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_read_bw",
    "ib_read_lat",
)
# Columns of the table: metric, unit, direction. A peak of 0 means that none was measured.
_COLUMNS = {
    "BW peak[MB/sec]": ("bandwidth_peak", "MiB/s", HIGHER),
    "BW average[MB/sec]": ("bandwidth", "MiB/s", HIGHER),
    "MsgRate[Mpps]": ("message_rate", "Mmsg/s", HIGHER),
    "t_min[usec]": ("latency_min", "us", LOWER),
    "t_max[usec]": ("latency_max", "us", LOWER),
    "t_typical[usec]": ("latency_p50", "us", LOWER),
    "t_avg[usec]": ("latency_mean", "us", LOWER),
    "t_stdev[usec]": ("latency_stddev", "us", LOWER),
    "99% percentile[usec]": ("latency_p99", "us", LOWER),
    "99.9% percentile[usec]": ("latency_p99_9", "us", LOWER),
    "tps average": ("transactions_per_s", "1/s", HIGHER),
    "#bytes": None,
    "#iterations": None,
}

_BOTH_ENDS = (
    Parameter("test", str, REQUIRED, "what to measure", choices=_TESTS),
    Parameter("device", str, REQUIRED, "RDMA device of this guest"),
    Parameter("gid_address", str, "", "IPv4 address whose RoCE v2 GID to use, if several"),
    Parameter("message_bytes", int, 65536, "bytes a message", 1, 8 << 20),
    Parameter("iterations", int, 0, "messages to exchange, 0 to measure for runtime_s", 0, 10**9),
    Parameter("runtime_s", int, 2, "seconds to measure without iterations", 1, 86400),
)


def _serve(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    port = parameters["port"] or free_port("tcp")
    gid = rdma.roce_v2_gid(parameters["device"], parameters["gid_address"])
    return _finish(
        run,
        command(parameters, gid["index"], port),
        listening=Listening("tcp", gid["address"], port),
    )


def _connect(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    gid = rdma.roce_v2_gid(parameters["device"], parameters["gid_address"])
    argv = [*command(parameters, gid["index"], parameters["port"]), parameters["address"]]
    return _finish(run, argv, listening=None)


def _finish(run: Run, argv: list[str], *, listening: Listening | None) -> dict[str, Any]:
    output = run_tool(run, argv, listening=listening)
    if output.status != 0 and not run.stop_reason:
        raise failed(argv[0], output)
    return result(parse(output.stdout), raw=output.stdout, command=output.command)


def command(parameters: dict[str, Any], gid_index: int, port: int) -> list[str]:
    argv = [parameters["test"], "-d", parameters["device"], "-x", str(gid_index)]
    argv += ["-p", str(port), "-s", str(parameters["message_bytes"]), "-F"]
    if parameters["iterations"]:
        return [*argv, "-n", str(max(5, parameters["iterations"]))]
    return [*argv, "-D", str(parameters["runtime_s"])]


def parse(stdout: str) -> list[dict[str, Any]]:
    """Metrics of the last table in a report."""
    lines = stdout.splitlines()
    try:
        heading = max(at for at, line in enumerate(lines) if line.lstrip().startswith("#bytes"))
        columns = sorted(
            (lines[heading].index(title), title)
            for title in _COLUMNS
            if f" {title}" in lines[heading] or lines[heading].startswith(title)
        )
        values = [float(word) for word in lines[heading + 1].split()]
        if len(values) != len(columns):
            raise ValueError(f"{len(columns)} columns, {len(values)} values")
    except (ValueError, IndexError) as error:
        raise Fault(
            "bad-output", f"perftest's table cannot be read: {error}", detail=last_lines(stdout)
        ) from None
    figures = [(_COLUMNS[title], value) for (_, title), value in zip(columns, values)]
    return [
        metric(*named, value)
        for named, value in figures
        if named is not None and not (named[0] == "bandwidth_peak" and value == 0)
    ]


SERVER = Workload(
    "waits for one perftest client",
    (*_BOTH_ENDS, PORT_TO_SERVE),
    _serve,
    fidelity="emulated",
)
CLIENT = Workload(
    "RDMA bandwidth or latency against a perftest server, by perftest",
    (*_BOTH_ENDS, Parameter("address", str, REQUIRED, "address of the server"), PORT_OF_PEER),
    _connect,
    fidelity="emulated",
)
