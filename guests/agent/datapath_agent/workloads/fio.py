"""Storage through fio, on data disks only."""

from __future__ import annotations

import json

from datapath_agent import disks
from datapath_agent.parameters import REQUIRED, RUNTIME_S, Parameter
from datapath_agent.protocol import Fault
from datapath_agent.tool import failed, last_lines, run_tool
from datapath_agent.workload import HIGHER, LOWER, Workload, metric, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

_PATTERNS = ("read", "write", "randread", "randwrite", "rw", "randrw")
_ENGINES = ("libaio", "io_uring", "psync", "sync")
_PERCENTILES = {"p50": "50.000000", "p99": "99.000000", "p99_9": "99.900000"}

_PARAMETERS = (
    Parameter("disk", str, REQUIRED, "serial of a data disk"),
    Parameter("pattern", str, REQUIRED, "access pattern", choices=_PATTERNS),
    Parameter("block_bytes", int, 4096, "bytes a request", 512, 16 << 20),
    Parameter("iodepth", int, 32, "requests in flight", 1, 4096),
    Parameter("engine", str, "libaio", "how requests are submitted", choices=_ENGINES),
    RUNTIME_S,
    Parameter("ramp_s", float, 0.0, "seconds before measuring starts", 0, 3600),
    Parameter("direct", bool, True, "bypass the guest's page cache"),
)


def _run(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    argv = command(parameters, disks.claim(parameters["disk"]))
    output = run_tool(run, argv)
    if output.status != 0 and not run.stop_reason:
        raise failed("fio", output)
    metrics, raw = parse(output.stdout)
    return result(metrics, raw=raw, command=output.command)


def command(parameters: dict[str, Any], device: str) -> list[str]:
    argv = [
        "fio",
        "--name=lab",
        f"--filename={device}",
        f"--rw={parameters['pattern']}",
        f"--bs={parameters['block_bytes']}",
        f"--iodepth={parameters['iodepth']}",
        f"--ioengine={parameters['engine']}",
        f"--direct={int(parameters['direct'])}",
        "--time_based",
        f"--runtime={parameters['runtime_s'] * 1000:.0f}ms",
        # A job process would leave the run's process group with setsid(); a thread cannot.
        "--thread=1",
        "--output-format=json+",
    ]
    if parameters["ramp_s"]:
        argv.append(f"--ramp_time={parameters['ramp_s'] * 1000:.0f}ms")
    return argv


def parse(stdout: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Metrics and the whole report, of a json+ report that a message may precede."""
    try:
        raw: dict[str, Any] = json.loads(stdout[stdout.index("{") :])
        (job,) = raw["jobs"]
        metrics = [
            figure
            for side in ("read", "write")
            if job[side]["total_ios"]
            for figure in _side(side, job[side])
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Fault(
            "bad-output",
            f"fio's report cannot be read: {type(error).__name__}: {error}",
            detail=last_lines(stdout),
        ) from None
    if not metrics:
        raise Fault("bad-output", "fio completed no request", detail=last_lines(stdout))
    return metrics, raw


def _side(side: str, report: dict[str, Any]) -> list[dict[str, Any]]:
    latency_ns = report["clat_ns"]
    return [
        metric(f"{side}_iops", "IOPS", HIGHER, float(report["iops"])),
        metric(f"{side}_throughput", "MiB/s", HIGHER, report["bw_bytes"] / (1 << 20)),
        metric(f"{side}_latency_mean", "us", LOWER, latency_ns["mean"] / 1000),
        *(
            metric(f"{side}_latency_{name}", "us", LOWER, latency_ns["percentile"][key] / 1000)
            for name, key in _PERCENTILES.items()
        ),
        metric(f"{side}_latency_max", "us", LOWER, latency_ns["max"] / 1000),
    ]


FIO = Workload("storage requests to a data disk, by fio", _PARAMETERS, _run)
