"""The ring between processes, on this host: policies, stalls, data, and what is refused."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from datapath_agent import disks
from datapath_agent.mechanism import workloads
from datapath_agent.mechanisms import find
from datapath_agent.mechanisms.vring import driver, stall
from datapath_agent.mechanisms.vring.completion import Finished, make_complete
from datapath_agent.mechanisms.vring.data import STAMP, Area
from datapath_agent.mechanisms.vring.driver import Tally, make_send
from datapath_agent.mechanisms.vring.memory import DONE, IN_FLIGHT, USED_IDX, Memory
from datapath_agent.protocol import Fault

RIGHT_KICKS = ("prelist_or", "fixed", "notify_in_lock", "always")
MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("no_child_left")


class StubRun:
    stop_reason: str | None = None

    def progress(self, doing: str) -> None: ...


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files in the place of data disks data0 and data1."""
    for name in ("data0", "data1"):
        (tmp_path / name).write_bytes(bytes(16 * MIB))
    monkeypatch.setattr(disks, "claim", lambda serial: str(tmp_path / serial))
    return tmp_path


def prepare(**given: Any) -> dict[str, Any]:
    mechanism = find("vring")
    assert mechanism
    checked: dict[str, Any] = workloads("vring", mechanism)["vring"].prepare(given)
    return checked


def run(running: StubRun | None = None, **given: Any) -> dict[str, Any]:
    mechanism = find("vring")
    assert mechanism
    given = {"null_s": 0.05, "runtime_s": 30.0, "operations": 2000, **given}
    result: dict[str, Any] = workloads("vring", mechanism)["vring"].run(
        running or StubRun(), prepare(**given)
    )
    return result


def figures(result: dict[str, Any]) -> dict[str, float]:
    return {each["name"]: each["value"] for each in result["metrics"]}


@pytest.mark.parametrize("suppress", ["event_idx", "flags"])
@pytest.mark.parametrize("kick", RIGHT_KICKS)
def test_every_request_is_kicked_for_or_the_kick_suppressed(kick: str, suppress: str) -> None:
    on_full = "pending" if kick.startswith("prelist") else "busy"
    counters = run(op="null", kick=kick, on_full=on_full, suppress=suppress)["counters"]
    assert counters["requests"] == 2000
    if kick == "always":
        assert counters["kicks"] == 2000
    else:
        assert counters["kicks"] + counters["suppressed"] == 2000
        # With flags, every request kicks until the device has got to run.
        assert 0 < counters["kicks"] < 2000 + (suppress == "flags")
    assert counters["stalls"] == 0


@pytest.mark.parametrize("preset", ["regressed", "pre2018"])
def test_what_a_faulty_driver_leaves_undone_is_explained(preset: str) -> None:
    """Whether a kick is lost is up to chance; every request is accounted for either way."""
    result = run(op="null", preset=preset, stall_s=1.1)
    counters = result["counters"]
    assert counters["requests"] == 2000 or counters["stalls"]
    assert counters["lost_kicks"] == counters["stalls"] == len(result["lines"])


@pytest.mark.parametrize("complete", ["after_unlock", "in_lock_linear", "in_lock_map"])
@pytest.mark.parametrize("pattern", ["randread", "randwrite", "write"])
def test_data_is_carried_and_checked(disk: Path, pattern: str, complete: str) -> None:
    result = run(disk="data0", pattern=pattern, complete=complete, region_mib=4, outstanding=8)
    counters = result["counters"]
    assert (counters["verified"], counters["requests"]) == (1, 2000)
    assert figures(result)["data_errors"] == counters["stale"] == counters["wrong"] == 0
    assert counters["duplicate_ids"] == 0
    assert len(result["samples"]["latency_us"]) == 2000
    assert result["histograms"]["submit_lock_hold"]["buckets"]


def test_two_hbas_two_sizes_and_one_queue(disk: Path) -> None:
    result = run(
        disk="data0,data1", hbas=2, queues=1, submitters=4, block_bytes=8192,
        second_block_bytes=65536, pattern="randwrite", outstanding=4, region_mib=8,
    )  # fmt: skip
    assert figures(result)["data_errors"] == 0
    mean_bytes = figures(result)["throughput"] * MIB / figures(result)["iops"]
    assert mean_bytes == pytest.approx((8192 + 65536) / 2)
    sizes = {STAMP.unpack_from((disk / "data1").read_bytes(), at)[0] for at in (0, 8192)}
    assert sizes == {0, 8192}


def test_a_full_ring_makes_requests_busy_and_loses_none() -> None:
    counters = run(op="null", ring_size=8, outstanding=32, preset="fixed")["counters"]
    assert counters["busy"] > 0
    assert (counters["requests"], counters["stalls"], counters["full_kicks"]) == (2000, 0, 0)
    counters = run(op="null", ring_size=8, outstanding=32, preset="pre684")["counters"]
    assert (counters["requests"], counters["stalls"], counters["busy"]) == (2000, 0, 0)


def test_a_trace_and_a_harness_are_measured() -> None:
    result = run(op="null", trace=True)
    assert result["harness"]["runs"] == 3
    assert result["harness"]["cost_us"] > 0
    assert result["fidelity"] == "emulated"
    assert "without a disk" in result["layer"]


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A driver that stops kicking at its hundredth request, once null runs are over."""
    genuine = driver.make_kick_prepare

    def make(queue: Any, *, event_idx: bool) -> Callable[[], bool]:
        kick_prepare, asked = genuine(queue, event_idx=event_idx), 0

        def lose() -> bool:
            nonlocal asked
            asked += 1
            return kick_prepare() and asked < 100

        return lose

    def arm(*_: Any) -> None:
        monkeypatch.setattr(driver, "make_kick_prepare", make)

    monkeypatch.setattr("datapath_agent.mechanisms.vring.measure._open_disks", arm)
    return arm


def test_a_lost_kick_is_found_explained_and_ended(deaf: Any) -> None:
    start_s = time.monotonic()
    result = run(op="null", stall_s=1.5)
    assert time.monotonic() - start_s < 8
    counters = result["counters"]
    assert figures(result)["stalled"] == 1
    assert counters["lost_kicks"] == counters["stalls"] == counters["forced_kicks"] >= 1
    assert counters["operations_to_first_stall"] < 2000
    assert 1500 <= counters["recovery_ms"] < 3000
    assert counters["kick_to_progress_ms"] < 500
    assert "lost kick (" in result["lines"][0]
    assert "by a forced kick" in result["lines"][0]


def test_a_reset_completes_what_the_device_still_has(deaf: Any) -> None:
    """Without telling the device: what it does later is stale, or hits another request."""
    counters = run(
        op="null", stall_s=1.2, on_reset="complete", queues=1, submitters=2, outstanding=64
    )["counters"]
    assert counters["resets"] >= 128
    assert counters["submitted_while_stalled"] >= 16
    assert counters["stale"] >= counters["resets"]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, stall.LOST_KICK),
        ({"is_rung": True}, stall.DEVICE_NOT_RUN),
        ({"is_taking": True}, stall.DEVICE_NOT_RUN),
        ({"at_disk": 3}, stall.DEVICE_BUSY),
        ({"used_idx": 9}, stall.NOT_COMPLETED),
        ({"last_seen": 12}, stall.NOT_COMPLETED),
    ],
)
def test_a_stall_is_explained_by_the_ring(changes: dict[str, Any], cause: str) -> None:
    state = stall.RingState(
        in_ring=4, avail_idx=12, last_seen=8, avail_event=8, no_notify=0, num_added=0,
        used_idx=8, last_used=8, at_disk=0, is_taking=False, is_rung=False,
    )  # fmt: skip
    assert stall.cause(state._replace(**changes)) == cause


def test_a_run_that_is_stopped_keeps_what_it_has() -> None:
    running = StubRun()
    timer = threading.Timer(1.5, lambda: setattr(running, "stop_reason", "requested"))
    timer.start()
    start_s = time.monotonic()
    result = run(running, op="null", operations=0)
    assert time.monotonic() - start_s < 4
    assert result["counters"]["requests"] > 0


def complete_by_hand(policy: dict[str, Any], ids: tuple[int, int]) -> tuple[Memory, Finished]:
    """Two requests with these ids sent, and the second one's completion taken."""
    with Memory(hbas=1, queues=1, ring_size=4, submitters=1, outstanding=2) as memory:
        queue, finished = memory.queues[0][0], Finished()
        send, _ = make_send(memory, queue, policy, Tally())
        for slot in (0, 1):
            memory.ids[slot] = ids[slot]
            memory.serials[slot] += 1
            memory.states[slot] = IN_FLIGHT
            assert send(slot)
        queue.used_ring[0] = queue.avail_ring[1]
        queue.fields[USED_IDX] = 1
        make_complete(memory, queue, policy, 0, finished)()
    return memory, finished


@pytest.mark.parametrize("complete", ["in_lock_linear", "in_lock_map"])
def test_an_id_given_twice_completes_the_wrong_request(complete: str) -> None:
    policy = {
        "kick": "fixed", "on_full": "busy", "suppress": "event_idx", "id": "unlocked",
        "complete": complete,
    }  # fmt: skip
    memory, finished = complete_by_hand(policy, (7, 8))
    assert (finished.wrong, list(memory.states)) == (0, [IN_FLIGHT, DONE])
    if complete == "in_lock_linear":
        memory, finished = complete_by_hand(policy, (7, 7))
        assert (finished.wrong, list(memory.states)) == (1, [DONE, IN_FLIGHT])


@pytest.fixture
def area(tmp_path: Path) -> Iterator[tuple[Area, mmap.mmap, int]]:
    path = tmp_path / "area"
    path.write_bytes(bytes(64 << 10))
    fd = os.open(path, os.O_RDWR)
    buffers = mmap.mmap(-1, 2 * 4096)
    area = Area(fd, 8192, 4096, 8, buffers)
    area.write_all()
    yield area, buffers, fd
    os.close(fd)


def write(area: Area, buffers: mmap.mmap, fd: int, block: int, at_block: int) -> None:
    area.prepare_write(block, 0)
    os.pwrite(fd, buffers[:4096], area.offset(at_block))


def never() -> bool:
    return False


def test_a_block_in_its_place_is_right(area: tuple[Area, mmap.mmap, int]) -> None:
    blocks, buffers, fd = area
    assert blocks.count_wrong(never) == 0
    write(blocks, buffers, fd, 3, 3)
    assert blocks.count_wrong(never) == 0
    blocks.prepare_read(3, 1)
    assert not blocks.is_right(3, 1)  # nothing has been read yet
    buffers[4096:] = os.pread(fd, 4096, blocks.offset(3))
    assert blocks.is_right(3, 1)
    assert not blocks.is_right(4, 1)


def test_a_block_of_another_place_or_half_a_block_is_wrong(
    area: tuple[Area, mmap.mmap, int],
) -> None:
    blocks, buffers, fd = area
    for block in (3, 4):  # of the same generation
        write(blocks, buffers, fd, block, block)
    buffers[4096:] = os.pread(fd, 4096, blocks.offset(3))
    assert blocks.is_right(3, 1)
    assert not blocks.is_right(4, 1)
    buffers[-STAMP.size :] = bytes(STAMP.size)
    assert not blocks.is_right(3, 1)


def test_a_lost_write_and_a_misplaced_one_are_found(area: tuple[Area, mmap.mmap, int]) -> None:
    blocks, buffers, fd = area
    blocks.prepare_write(5, 0)  # and never written
    assert blocks.count_wrong(never) == 1
    write(blocks, buffers, fd, 1, 2)  # over another block: neither is right then
    assert blocks.count_wrong(never) == 3


def test_a_write_that_was_given_up_may_have_happened_or_not(
    area: tuple[Area, mmap.mmap, int],
) -> None:
    blocks, buffers, fd = area
    blocks.prepare_write(5, 0)
    blocks.give_up(5)
    assert blocks.count_wrong(never) == 0
    os.pwrite(fd, buffers[:4096], blocks.offset(5))
    assert blocks.count_wrong(never) == 0


@pytest.mark.parametrize(
    ("given", "kind", "field"),
    [
        ({"concurrency": "thread"}, "inexpressible", "concurrency"),
        ({"kick": "fixed", "on_full": "pending"}, "inexpressible", "on_full"),
        ({"kick": "prelist_or", "on_full": "busy"}, "inexpressible", "on_full"),
        ({"queues": 4, "submitters": 3}, "inexpressible", "submitters"),
        ({"ring_size": 100}, "bad-parameter", "ring_size"),
        ({"block_bytes": 4000}, "bad-parameter", "block_bytes"),
        ({"op": "real"}, "bad-parameter", "disk"),
        ({"op": "real", "disk": "data0,data0", "hbas": 2}, "bad-parameter", "disk"),
        ({"op": "real", "disk": "d", "region_mib": 1, "block_bytes": MIB}, "bad-parameter",
         "region_mib"),
        ({"kick": "sometimes"}, "bad-parameter", "kick"),
        ({"hbas": 3}, "bad-parameter", "hbas"),
        ({"submitters": 64, "outstanding": 4096}, "bad-parameter", "outstanding"),
    ],
)  # fmt: skip
def test_what_cannot_show_the_mechanism_is_refused(
    given: dict[str, Any], kind: str, field: str
) -> None:
    with pytest.raises(Fault) as caught:
        prepare(**{"op": "null", **given})
    assert (caught.value.kind, caught.value.field) == (kind, f"parameters.{field}")


def test_more_buffers_than_memory_are_refused(disk: Path) -> None:
    with pytest.raises(Fault, match="MiB of buffers") as caught:
        run(
            disk="data0", block_bytes=16 * MIB, submitters=64, outstanding=512, queues=1,
            region_mib=1 << 20,
        )  # fmt: skip
    assert (caught.value.kind, caught.value.field) == ("refused", "parameters.submitters")


def test_more_submitters_than_can_start_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, forks = os.fork, 0

    def fork() -> int:
        nonlocal forks
        forks += 1
        if forks > 20:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return genuine()

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(Fault, match="cannot start a process more") as caught:
        run(op="null", submitters=64)
    assert (caught.value.kind, caught.value.field) == ("refused", "parameters.submitters")


def test_a_disk_that_is_too_small_or_missing_is_refused(disk: Path) -> None:
    with pytest.raises(Fault, match="smaller"):
        run(disk="data0", region_mib=32)
    with pytest.raises(Fault) as caught:
        run(disk="data2")
    assert caught.value.kind == "missing-device"


def test_presets_name_whole_sets_of_policies() -> None:
    mechanism = find("vring")
    assert mechanism
    assert list(mechanism.presets) == ["pre2018", "pre684", "regressed", "fixed"]
    for preset in mechanism.presets:
        policy = prepare(preset=preset, op="null")["policy"]
        assert {**policy, **mechanism.presets[preset]} == policy
    assert prepare(preset="regressed", op="null")["policy"]["on_full"] == "busy_notify"
