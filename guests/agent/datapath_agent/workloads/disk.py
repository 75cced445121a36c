"""Storage through the agent's own engine, on data disks only."""

from __future__ import annotations

import os

from datapath_agent import disks
from datapath_agent.measurement.percentiles import latency_metrics
from datapath_agent.parameters import REQUIRED, Parameter
from datapath_agent.protocol import Fault
from datapath_agent.workload import HIGHER, Workload, metric, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

SECTOR_BYTES = 512
PATTERNS = ("read", "write", "randread", "randwrite")

_PARAMETERS = (
    Parameter("disk", str, REQUIRED, "serial of a data disk"),
    Parameter("pattern", str, REQUIRED, "access pattern", choices=PATTERNS),
    Parameter("block_bytes", int, 4096, "bytes a request", SECTOR_BYTES, 16 << 20),
    Parameter("outstanding", int, 32, "requests in flight", 1, 1024),
    # Every latency is kept.
    Parameter("runtime_s", float, 2.0, "seconds to measure", 0.1, 300),
)


def _run(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.storage import aio, engine

    block_bytes = parameters["block_bytes"]
    if block_bytes % SECTOR_BYTES:
        raise Fault(
            "bad-parameter", "is a multiple of 512: direct I/O", field="parameters.block_bytes"
        )
    pattern = parameters["pattern"]
    writing = pattern in ("write", "randwrite")
    fd = aio.open_direct(disks.claim(parameters["disk"]), writing=writing)
    try:
        done = engine.drive(
            fd=fd,
            disk_bytes=os.lseek(fd, 0, os.SEEK_END),
            pattern=pattern,
            block_bytes=block_bytes,
            outstanding=parameters["outstanding"],
            runtime_s=parameters["runtime_s"],
            stopped=lambda: run.stop_reason,
        )
    finally:
        os.close(fd)
    count = len(done.latencies_ns)
    if not count:
        raise Fault("no-answer", "the disk completed no request")
    side = "write" if writing else "read"
    latencies_us = [latency_ns // 1000 for latency_ns in done.latencies_ns]
    return result(
        [
            metric(f"{side}_iops", "IOPS", HIGHER, count / done.elapsed_s),
            metric(
                f"{side}_throughput", "MiB/s", HIGHER, count * block_bytes / done.elapsed_s / 2**20
            ),
            *latency_metrics(latencies_us),
            metric("requests_a_batch", "requests", HIGHER, count / done.batches),
        ],
        samples={"latency_us": latencies_us},
    )


DISK = Workload("storage requests to a data disk, by the agent's own engine", _PARAMETERS, _run)
