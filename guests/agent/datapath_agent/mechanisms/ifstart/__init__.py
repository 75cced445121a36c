"""FreeBSD hn(4)'s transmit path before and after D5074: what a caller of if_start does itself.

Senders share one if_snd queue and one TX lock; the device behind them is a TCP stream to the
peer, which refuses when its buffer is full as a NIC does when it is out of descriptors.
"""

from __future__ import annotations

from datapath_agent.mechanism import NULL_S, Mechanism
from datapath_agent.parameters import (
    PORT_OF_PEER,
    PORT_TO_SERVE,
    REQUIRED,
    RUNTIME_S,
    Parameter,
)
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

IF_START = Parameter(
    "if_start",
    str,
    "trylock_taskq",
    "wait for the TX lock and send all that is queued; or try the lock, and leave it to the "
    "taskqueue if that fails or a frame is large; or always leave it to the taskqueue",
    choices=("block", "trylock_taskq", "sched_all"),
)
DIRECT_TX_SIZE = Parameter(
    "direct_tx_size",
    int,
    128,
    "bytes of the largest frame a caller sends itself, 0 for no limit",
    choices=(0, 128, 1514, 65535),
)
TX_LOCK = Parameter(
    "tx_lock",
    str,
    "main",
    "the driver's main lock, which ioctls take too, or one of the TX ring's own",
    choices=("main", "per_ring"),
)
LOCK_KIND = Parameter(
    "lock_kind", str, "sleep", "how one waits for the TX lock", choices=("sleep", "spin")
)
TASKQ_THREADS = Parameter("taskq_threads", int, 1, "processes that run the taskqueue's tasks", 1, 2)
TASKQ_ENQUEUE = Parameter(
    "taskq_enqueue",
    str,
    "coalesced",
    "a task that is pending is not queued again, as taskqueue(9) has it, or it is",
    choices=("coalesced", "each"),
)

BULK_SENDERS = Parameter("bulk_senders", int, 4, "senders of large frames", 0, 32)
BULK_BYTES = Parameter("bulk_bytes", int, 65536, "bytes of a large frame", 64, 65536)
WINDOW = Parameter(
    "window_frames", int, 16, "large frames a sender has queued at most, as TCP's window", 1, 256
)
SMALL_SENDERS = Parameter("small_senders", int, 2, "senders of small frames", 0, 32)
SMALL_BYTES = Parameter("small_bytes", int, 66, "bytes of a small frame", 16, 1514)
SMALL_EVERY_US = Parameter(
    "small_every_us", int, 200, "from one small frame of a sender to its next", 20, 1_000_000
)
CONTROL_EVERY_MS = Parameter(
    "control_every_ms", int, 10, "from one ioctl-like piece of work to the next; 0: none", 0, 10_000
)
CONTROL_IOCTLS = Parameter(
    "control_ioctls", int, 20, "real ioctls in each, under the driver's main lock", 1, 10_000
)
DEVICE_KIB = Parameter(
    "device_kib", int, 1024, "KiB that the device takes before it refuses (SO_SNDBUF)", 64, 16384
)
TSO = Parameter(
    "tso",
    str,
    "as_is",
    "segmentation offload of the NIC during the run (ethtool's tso and gso)",
    choices=("as_is", "on", "off"),
)
LINE_RATE = Parameter(
    "line_rate_mbps", int, 0, "line rate to compare with, 0 where there is none", 0, 1_000_000
)
WARMUP_S = Parameter("warmup_s", float, 1.0, "seconds of load before measuring", 0.0, 60)
BIN_S = Parameter("bin_s", float, 0.5, "seconds of each interval of the throughput", 0.01, 60)
CONCURRENCY = Parameter(
    "concurrency",
    str,
    "processes",
    "every sender and task a process; or all threads of one, which shows what the GIL does to it",
    choices=("processes", "threads"),
)
OP = Parameter(
    "op", str, "real", "send, or let the device take frames for nothing", choices=("real", "null")
)


def check(policy: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Refuse what cannot show the mechanism."""

    def refuse(field: str, reason: str) -> None:
        raise Fault("inexpressible", reason, field=f"parameters.{field}")

    if policy["if_start"] != "trylock_taskq" and policy["direct_tx_size"]:
        refuse(
            "direct_tx_size",
            f"if_start={policy['if_start']} knows no size: it is direct_tx_size=0 there",
        )
    if policy["lock_kind"] == "spin" and parameters["concurrency"] == "threads":
        refuse(
            "lock_kind",
            "a thread that spins holds the GIL, which the holder of the lock is waiting for",
        )
    if not parameters["bulk_senders"] and not parameters["small_senders"]:
        refuse("bulk_senders", "there is nobody to send")
    if parameters["runtime_s"] < 2 * parameters["bin_s"]:
        refuse("bin_s", "steadiness needs two whole intervals of bin_s within runtime_s")


def _run(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.mechanisms.ifstart.measure import measure

    return measure(run, policy, parameters)


def _serve(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.mechanisms.ifstart.receiver import serve

    return serve(run, parameters)


_BEFORE = {"if_start": "block", "direct_tx_size": 0, "tx_lock": "main"}

MECHANISM = Mechanism(
    "a driver's transmit path: callers of if_start wait for the TX lock, or hand over",
    "FreeBSD hyperv/hn, D5074 (r294788)",
    (IF_START, DIRECT_TX_SIZE, TX_LOCK, LOCK_KIND, TASKQ_THREADS, TASKQ_ENQUEUE),
    (
        Parameter("address", str, REQUIRED, "address of the receiving end"),
        PORT_OF_PEER,
        RUNTIME_S._replace(default=10.0),
        WARMUP_S,
        BIN_S,
        BULK_SENDERS,
        BULK_BYTES,
        WINDOW,
        SMALL_SENDERS,
        SMALL_BYTES,
        SMALL_EVERY_US,
        CONTROL_EVERY_MS,
        CONTROL_IOCTLS,
        DEVICE_KIB,
        TSO,
        LINE_RATE,
        CONCURRENCY,
        OP,
        NULL_S,
    ),
    {
        "before": _BEFORE,
        "after": {"if_start": "trylock_taskq", "direct_tx_size": 128, "tx_lock": "main"},
        # What its author made the default later, when the ring had a lock of its own.
        "later": {"if_start": "sched_all", "direct_tx_size": 0, "tx_lock": "per_ring"},
    },
    check,
    _run,
    serve=_serve,
    server_parameters=(
        Parameter("address", str, REQUIRED, "the guest's own address to listen on"),
        PORT_TO_SERVE,
    ),
)
