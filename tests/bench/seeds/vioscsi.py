"""vioscsi SendSRB (virtio-win PR #1135, merged as #1150): C4 of the design's mechanisms.

Layer L2, the ring between processes in the guest, carries the claims; L1 is the model that the
unit tests check, L3 the guest's own virtio-scsi driver under the same agent and under fio.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.deadline import Deadline
from lab.guest.agent_client import Metric, Result
from lab.guest.workloads import Disk, Fio
from lab.progress import Progress
from lab.running import RunningLab
from tests.bench.seeds import vioscsi_rows as rows
from tests.bench.seeds.common import Variant, interleave, mechanism

TOPOLOGY = "vioscsi-sendsrb.yaml"
GUEST = "scsi"
DISK = "data0"
RUNS = 10
FEW = 2  # a row whose answer is a count, or that is only reported

# Disks by what they differ in: queues, iothread, aio, HBA of their own or shared, EVENT_IDX.
L3_DISKS = (
    "threads", "native", "data1", "one-queue", "one-queue-uring", "main-loop", "main-loop-native",
    "lun0", "lun1", "no-event-idx", "no-event-idx-one",
)  # fmt: skip
WITHOUT_EVENT_IDX = "flags"

# Small requests and few in flight a submitter: the device sleeps often. Four submitters a queue.
LOAD = {
    "disk": DISK, "pattern": "randread", "block_bytes": 4096, "outstanding": 4, "submitters": 8,
    "stall_s": 1.0, "null_s": 0.05,
}  # fmt: skip

# The seed's points, with 16 submitters scaled to what a guest of two CPUs runs.
POINTS: dict[str, dict[str, Any]] = {
    "64 KiB x 32 x 4": {"block_bytes": 64 << 10, "outstanding": 32, "submitters": 4},
    "1 MiB x 8 x 1": {
        "block_bytes": 1 << 20, "outstanding": 8, "submitters": 1, "queues": 1,
    },
    "4 KiB x 32 x 8": {"block_bytes": 4 << 10, "outstanding": 32, "submitters": 8},
}  # fmt: skip


def _vring(name: str, **given: Any) -> Variant:
    return mechanism(name, "vring", {**LOAD, **given}, guest=GUEST)


MAIN = (
    _vring("regressed", preset="regressed", runtime_s=20),
    _vring("fixed", preset="fixed", runtime_s=25),
)
CONTROLS = (
    _vring("regressed, one queue", preset="regressed", queues=1, runtime_s=6),
    _vring("regressed, flags", preset="regressed", suppress="flags", runtime_s=6),
    _vring("always", preset="fixed", kick="always", runtime_s=4),
    _vring("fixed, short", preset="fixed", runtime_s=4),
    _vring("fixed, traced", preset="fixed", runtime_s=4, trace=True),
    _vring("pre2018", preset="pre2018", runtime_s=6),
    _vring("pre684", preset="pre684", runtime_s=4),
    _vring("notify in lock", preset="fixed", kick="notify_in_lock", runtime_s=4),
    _vring("ids unlocked", preset="fixed", id="unlocked", runtime_s=4),
)
RESETS = (
    # After a lost kick nothing notifies: the ring fills, one reset after the other.
    _vring(
        "regressed, reset", preset="regressed", on_full="busy", on_reset="complete", runtime_s=40
    ),
    # The regressed driver's own way out: a full ring notifies.
    _vring(
        "regressed, reset, full ring notifies", preset="regressed", on_reset="complete",
        runtime_s=30,
    ),
    # The shape of #756: two load groups with different block sizes.
    _vring(
        "regressed, 8K and 64K", preset="regressed", block_bytes=8192, second_block_bytes=65536,
        outstanding=32, runtime_s=15,
    ),
)  # fmt: skip


def _points() -> list[Variant]:
    return [
        _vring(
            f"{point} {pattern} {preset}", **{
                "preset": preset, "pattern": pattern, "runtime_s": 2, **given,
            },
        )
        for point, given in POINTS.items()
        for pattern in (("read", "write") if "1 MiB" in point else ("randread", "randwrite"))
        for preset in ("regressed", "fixed")
    ]  # fmt: skip


def _native() -> list[Variant]:
    """Layer L3: the same load on the guest's own driver, and the raw disk for the shape."""
    return [
        *(_on_disk(f"driver {disk}", Disk(**_small(disk), outstanding=32)) for disk in L3_DISKS),
        *(_on_disk(f"fio {disk}", Fio(**_small(disk), iodepth=32)) for disk in L3_DISKS),
        _on_disk(
            "raw 1 MiB read",
            Disk(disk=DISK, pattern="read", block_bytes=1 << 20, outstanding=8, runtime_s=2.0),
        ),
        _on_disk(
            "raw 4 KiB randread", Disk(disk=DISK, pattern="randread", outstanding=32, runtime_s=2.0)
        ),
    ]


def _small(disk: str) -> dict[str, Any]:
    return {"disk": disk, "pattern": "randwrite", "block_bytes": 4096, "runtime_s": 1.0}


def _on_disk(name: str, workload: Disk | Fio) -> Variant:
    guest = WITHOUT_EVENT_IDX if workload.disk.startswith("no-event-idx") else GUEST

    def measure(lab: RunningLab, deadline: Deadline) -> Result:
        with lab.guest(guest).agent() as agent:
            return _with_longest(agent.run(workload, deadline=deadline))

    return Variant(name, measure)


def _with_longest(result: Result) -> Result:
    """fio's longest request is only in its own report; the agent's engine tells it itself."""
    if result.workload != Fio.name:
        return result
    longest_us = result.raw["jobs"][0]["write"]["clat_ns"]["max"] / 1000
    return replace(
        result, metrics=(*result.metrics, Metric("latency_max", "us", "lower", longest_us))
    )


def groups(runs: int | None) -> list[tuple[tuple[Variant, ...], int]]:
    """What is interleaved with what, and how often; some 14 minutes in all."""
    main = runs or RUNS
    few = min(FEW, main)
    return [
        (MAIN, main),
        (CONTROLS, few),
        (RESETS, min(2, few)),
        (tuple(_native()), 1),
        (tuple(_points()), 1),
    ]


def collect(lab: RunningLab, *, runs: int | None, out: Path, progress: Progress) -> None:
    for variants, times in groups(runs):
        interleave(lab, variants, times, out=out, progress=progress)


judge = rows.judge
