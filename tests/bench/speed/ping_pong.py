"""UDP ping-pong: the agent's own loop beside sockperf's, 64 bytes each way."""

from __future__ import annotations

from lab.deadline import Deadline
from lab.running import RunningLab
from lab.workload import run_workload
from tests.bench.speed.common import Measure, Row

MESSAGE_BYTES = 64
RUNTIME_S = 4.0
FLOOR = 0.5


def _ours(guest: str, peer: str) -> Measure:
    given = {
        "request_bytes": MESSAGE_BYTES,
        "response_bytes": MESSAGE_BYTES,
        "runtime_s": RUNTIME_S,
    }

    def measure(lab: RunningLab, deadline: Deadline) -> float:
        result = run_workload(lab, "udp-rr", given, guest=guest, peer=peer, deadline=deadline)
        return result["rps"].value

    return measure


def _theirs(guest: str, peer: str) -> Measure:
    given = {"mode": "ping-pong", "message_bytes": MESSAGE_BYTES, "runtime_s": RUNTIME_S}

    def measure(lab: RunningLab, deadline: Deadline) -> float:
        result = run_workload(lab, "sockperf", given, guest=guest, peer=peer, deadline=deadline)
        return result["round_trips_per_s"].value

    return measure


def _row(where: str, topology: str, peer: str, floor: float | None) -> Row:
    sides = (_ours("client", peer), _theirs("client", peer))
    return Row(f"UDP ping-pong, {where}", "round trips/s", floor, *sides, topology)


ROWS = (
    _row("inside a guest of 1 vCPU", "default.yaml", "client", FLOOR),
    _row("inside a guest of 2 vCPUs", "msquic-datapath.yaml", "client", FLOOR),
    _row("across two guests of 1 vCPU", "default.yaml", "server", None),
)
