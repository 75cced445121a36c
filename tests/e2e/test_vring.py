"""The ring of vioscsi's SendSRB in a guest of two CPUs, on the guest's own virtio-scsi disks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.errors import Exit, InputError
from lab.guest.agent_client import AgentError, Result
from lab.guest.workloads import Disk
from lab.pytest_plugin import LabFactory
from lab.running import RunningGuest, RunningLab
from lab.workload import run_workload

# A kick is lost after some thousand requests; a trial ends with the first one.
TRIALS = 4
LOAD = {
    "disk": "threads", "outstanding": 4, "submitters": 8, "stall_s": 1.0, "null_s": 0.05,
    "region_mib": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def matrix(lab_factory: LabFactory, topologies: Path) -> RunningLab:
    return lab_factory(topologies / "vioscsi-matrix.yaml")


@pytest.fixture
def scsi(matrix: RunningLab) -> RunningGuest:
    return matrix.guest("scsi")


def run(lab: RunningLab, **given: Any) -> Result:
    return run_workload(lab, "vring", {**LOAD, **given}, deadline=lab.scaled(40))


def test_the_regressed_driver_loses_a_kick_and_the_fixed_one_none(matrix: RunningLab) -> None:
    requests = 0
    for _ in range(TRIALS):
        regressed = run(matrix, preset="regressed", runtime_s=12)
        assert regressed.mechanism
        requests += int(regressed.mechanism.counters["requests"])
        if regressed["stalled"].value:
            break
    else:
        pytest.fail(f"no stall in {TRIALS} trials of {requests} requests")
    counters = regressed.mechanism.counters
    assert counters["lost_kicks"] == counters["stalls"]
    assert "lost kick (" in regressed.mechanism.lines[0]
    assert "by a forced kick" in regressed.mechanism.lines[0]
    fixed = run(matrix, preset="fixed", runtime_s=6)
    assert fixed.mechanism
    counters = fixed.mechanism.counters
    assert (counters["stalls"], fixed["data_errors"].value) == (0, 0)
    assert 0 < counters["kicks"] < counters["requests"]


def test_writes_arrive_on_both_disks_and_are_read_back(matrix: RunningLab) -> None:
    result = run(
        matrix, preset="fixed", disk="native,uring", hbas=2, pattern="randwrite", runtime_s=2,
        second_block_bytes=16384, region_mib=32,
    )  # fmt: skip
    assert result.mechanism
    counters = result.mechanism.counters
    assert (counters["verified"], result["data_errors"].value, counters["stalls"]) == (1, 0, 0)
    assert result.fidelity == "emulated"


@pytest.mark.parametrize("pattern", ["read", "randwrite"])
def test_the_storage_engine_carries_requests(
    matrix: RunningLab, scsi: RunningGuest, pattern: Any
) -> None:
    with scsi.agent() as agent:
        result = agent.run(
            Disk(disk="uring", pattern=pattern, outstanding=16, runtime_s=1.0),
            deadline=matrix.scaled(30),
        )
    side = "write" if pattern == "randwrite" else "read"
    assert result[f"{side}_iops"].value > 0
    assert len(result.samples["latency_us"]) > 100


def test_the_root_disk_is_refused_and_the_host_told_why(matrix: RunningLab) -> None:
    with pytest.raises(AgentError, match="not free") as caught:
        run(matrix, preset="fixed", disk="root")
    assert caught.value.kind == "refused"


def test_threads_are_refused_before_a_guest_is_asked(matrix: RunningLab) -> None:
    with pytest.raises(InputError, match="GIL") as caught:
        run(matrix, preset="regressed", concurrency="thread")
    assert caught.value.exit_code == Exit.BAD_INPUT


def test_what_is_killed_leaves_no_process(matrix: RunningLab, scsi: RunningGuest) -> None:
    with pytest.raises(AgentError) as caught:
        run_workload(
            matrix, "vring", {**LOAD, "preset": "fixed", "runtime_s": 600},
            deadline=matrix.scaled(4),
        )  # fmt: skip
    assert caught.value.kind == "deadline"
    assert caught.value.partial
    assert caught.value.partial["iops"].value > 0
    # The brackets keep the pattern from finding itself.
    scsi.host.check_output("timeout 3 sh -c 'while pgrep -f [d]atapath-agent; do sleep 0.1; done'")
