"""FreeBSD hyperv/hn, D5074: the table of section D3 of the design's mechanisms.

Both guests have two vCPUs: on a host of two cores they are overcommitted by themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.progress import Progress
from lab.running import RunningLab
from tests.bench.seeds import hn_rows as rows
from tests.bench.seeds.common import Criterion, Trials, Variant, interleave, mechanism

TOPOLOGY = "hn-transmit.yaml"
RUNS = 5
FEW = 3  # what is only reported
# The design's small frames every 200 us are for a CPU, on which a null run costs 5 us a frame. In
# an emulated guest it costs 15 times that, and two such senders alone keep both vCPUs busy:
# their interval is scaled by as much, and 200 us is reported beside it.
SMALL_EVERY_US, AS_DESIGNED_US = 3000, 200
LOAD: dict[str, Any] = {
    "runtime_s": 4.0,
    "bin_s": 0.5,
    "warmup_s": 1.0,
    "null_s": 0.1,
    "small_every_us": SMALL_EVERY_US,
}
# The control: nobody else holds the lock.
ALONE: dict[str, Any] = {"bulk_senders": 1, "small_senders": 0, "control_every_ms": 0}


def _variant(name: str, **given: Any) -> Variant:
    return mechanism(name, "ifstart", {**LOAD, **given})


VARIANTS = (
    _variant("before", preset="before", bulk_senders=4, tso="on"),
    _variant("after", preset="after", bulk_senders=4, tso="on"),
    _variant("later", preset="later", bulk_senders=4, tso="on"),
    _variant("after, any size", preset="after", direct_tx_size=0, bulk_senders=4, tso="on"),
    _variant("before, 8 senders", preset="before", bulk_senders=8, tso="on"),
    _variant("after, 8 senders", preset="after", bulk_senders=8, tso="on"),
    _variant("before, no TSO", preset="before", bulk_senders=4, tso="off"),
    _variant("after, no TSO", preset="after", bulk_senders=4, tso="off"),
    _variant("before, alone", preset="before", tso="on", **ALONE),
    _variant("after, alone", preset="after", tso="on", **ALONE),
)
REPORTED = (
    _variant("before, spin", preset="before", lock_kind="spin", bulk_senders=4, tso="on"),
    _variant("after, spin", preset="after", lock_kind="spin", bulk_senders=4, tso="on"),
    _variant("before, threads", preset="before", concurrency="threads", bulk_senders=4, tso="on"),
    _variant("after, threads", preset="after", concurrency="threads", bulk_senders=4, tso="on"),
    # Nobody holds the lock for long: what is left of a caller's stall is the guest's scheduling.
    _variant("after, no device", preset="after", op="null", bulk_senders=4),
    *(
        _variant(
            f"{preset}, every {AS_DESIGNED_US} us",
            preset=preset,
            bulk_senders=4,
            tso="on",
            small_every_us=AS_DESIGNED_US,
        )
        for preset in ("before", "after")
    ),
)


def collect(lab: RunningLab, *, runs: int | None, out: Path, progress: Progress) -> None:
    interleave(lab, VARIANTS, runs or RUNS, out=out, progress=progress)
    interleave(lab, REPORTED, min(runs or FEW, FEW), out=out, progress=progress)


def judge(trials: Trials) -> list[Criterion]:
    return rows.judge(trials)
