"""The agent's storage engine, and the ring of the vring mechanism, beside fio on the same disk.

Writes come first: what is read afterwards has been written.
"""

from __future__ import annotations

from typing import Literal

from lab.deadline import Deadline
from lab.guest.workloads import Disk, Fio
from lab.running import RunningLab
from lab.workload import run_workload
from tests.bench.speed.common import Measure, Row

TOPOLOGY = "vioscsi-sendsrb.yaml"
GUEST = "scsi"
DISK = "data0"
RUNTIME_S = 2.0
SUBMITTERS = 4

Pattern = Literal["read", "write", "randread", "randwrite"]


def _engine(pattern: Pattern, block_bytes: int, depth: int, figure: str) -> Measure:
    def measure(lab: RunningLab, deadline: Deadline) -> float:
        workload = Disk(
            disk=DISK,
            pattern=pattern,
            block_bytes=block_bytes,
            outstanding=depth,
            runtime_s=RUNTIME_S,
        )
        with lab.guest(GUEST).agent() as agent:
            return agent.run(workload, deadline=deadline)[figure].value

    return measure


def _fio(pattern: Pattern, block_bytes: int, depth: int, figure: str) -> Measure:
    def measure(lab: RunningLab, deadline: Deadline) -> float:
        workload = Fio(
            disk=DISK,
            pattern=pattern,
            block_bytes=block_bytes,
            iodepth=depth,
            runtime_s=RUNTIME_S,
        )
        with lab.guest(GUEST).agent() as agent:
            return agent.run(workload, deadline=deadline)[figure].value

    return measure


def _ring(pattern: Pattern, block_bytes: int, depth: int, figure: str) -> Measure:
    """The same number of requests in flight, over `SUBMITTERS` processes and two queues."""
    name = "iops" if figure.endswith("iops") else "throughput"
    given = {
        "preset": "fixed",
        "disk": DISK,
        "pattern": pattern,
        "block_bytes": block_bytes,
        "outstanding": depth // SUBMITTERS,
        "submitters": SUBMITTERS,
        "runtime_s": RUNTIME_S,
    }

    def measure(lab: RunningLab, deadline: Deadline) -> float:
        return run_workload(lab, "vring", given, guest=GUEST, deadline=deadline)[name].value

    return measure


def _rows(
    pattern: Pattern, block_bytes: int, depth: int, figure: str, floor: float | None
) -> list[Row]:
    side = "write" if pattern.endswith("write") else "read"
    unit = "IOPS" if figure == "iops" else "MiB/s"
    size = f"{block_bytes >> 20} MiB" if block_bytes >> 20 else f"{block_bytes >> 10} KiB"
    load = (pattern, block_bytes, depth, f"{side}_{figure}")
    what = f"{pattern} {size} depth {depth}"
    return [
        Row(f"disk {what}", unit, floor, _engine(*load), _fio(*load), TOPOLOGY),
        Row(f"vring {what}", unit, None, _ring(*load), _fio(*load), TOPOLOGY),
    ]


ROWS = [
    *_rows("write", 1 << 20, 8, "throughput", 0.95),
    *_rows("randwrite", 4 << 10, 32, "iops", 0.6),
    *_rows("read", 1 << 20, 8, "throughput", 0.95),
    *_rows("read", 64 << 10, 32, "throughput", 0.95),
    *_rows("randread", 4 << 10, 32, "iops", 0.6),
]
