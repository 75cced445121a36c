"""The ifstart mechanism's parts: the queue, the driver's routines, the stream and the figures."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from datapath_agent.mechanism import split
from datapath_agent.mechanisms.ifstart import MECHANISM, figures, offload
from datapath_agent.mechanisms.ifstart.device import Gone, Nothing
from datapath_agent.mechanisms.ifstart.driver import Driver
from datapath_agent.mechanisms.ifstart.frames import HEADER, MEASURED, Frames
from datapath_agent.mechanisms.ifstart.memory import (
    GONE,
    IF_SND_DEPTH,
    OACTIVE,
    PENDING_START,
    PENDING_TXEOF,
    Memory,
)
from datapath_agent.mechanisms.ifstart.null import null_cost
from datapath_agent.protocol import Fault
from hypothesis import given, settings
from hypothesis import strategies as st

AXES = {axis.name: axis.default for axis in MECHANISM.policies}
BIG, SMALL = 65536, 66


class Device:
    """Takes `room` bytes more, and remembers the frames that it has whole."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.done: list[tuple[int, int]] = []
        self.taken_bytes = 0
        self.is_gone = False

    def transmit(self, frame: tuple[int, int, int, int]) -> int:
        sender, length, number, taken = frame
        if self.is_gone:
            raise Gone("Connection reset by peer")
        now = min(self.room, length - taken)
        self.room -= now
        self.taken_bytes += now
        if taken + now == length:
            self.done.append((sender, number))
        return now


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory(bulk_senders=2, window_frames=4, bins=3, bin_s=1.0)
    yield made
    made.close()


def driver(memory: Memory, device: Any, role: str = "direct", **policy: Any) -> Driver:
    return Driver(memory, device, {**AXES, **policy}, role)


BLOCK: dict[str, Any] = {"if_start": "block", "direct_tx_size": 0}
SCHED_ALL: dict[str, Any] = {"if_start": "sched_all", "direct_tx_size": 0}


@given(st.lists(st.sampled_from(["append", "take", "put back"]), max_size=60))
@settings(max_examples=50, deadline=None)
def test_the_queue_is_one_with_a_head_that_takes_back(steps: list[str]) -> None:
    memory = Memory(bulk_senders=0, window_frames=1, bins=1, bin_s=1.0)
    try:
        model: deque[tuple[int, int, int, int]] = deque()
        for number, step in enumerate(steps):
            if step == "append":
                assert memory.if_snd.append(1, 100, number)
                model.append((1, 100, number, 0))
                continue
            frame = memory.if_snd.take()
            assert frame == (model.popleft() if model else None)
            if step == "put back" and frame:
                memory.if_snd.prepend(frame)
                model.appendleft(frame)
        while frame := memory.if_snd.take():
            assert frame == model.popleft()
        assert not model
    finally:
        memory.close()


def test_a_full_queue_drops_but_takes_back(memory: Memory) -> None:
    numbers = range(IF_SND_DEPTH)
    assert all(memory.if_snd.append(0, SMALL, number) for number in numbers)
    assert not memory.if_snd.append(0, SMALL, IF_SND_DEPTH)
    first = memory.if_snd.take()
    assert first
    assert memory.if_snd.append(0, SMALL, IF_SND_DEPTH)
    memory.if_snd.prepend(first)
    taken = [frame[2] for frame in iter(memory.if_snd.take, None)]
    assert taken == [*numbers, IF_SND_DEPTH]


def test_block_sends_all_that_is_queued_whatever_its_size(memory: Memory) -> None:
    device = Device()
    sender = driver(memory, device, **BLOCK)
    memory.if_snd.append(0, BIG, 0)
    assert sender.hand_off(1, SMALL, 0)
    assert device.done == [(0, 0), (1, 0)]
    assert sender.counts["direct"] == 2
    assert sender.counts["task_enqueues"] == 0


def test_trylock_leaves_a_large_frame_and_all_behind_it_to_the_task(memory: Memory) -> None:
    device = Device()
    sender = driver(memory, device)
    assert sender.hand_off(1, SMALL, 0)
    assert device.done == [(1, 0)]  # small ones go at once
    assert sender.hand_off(0, BIG, 0)
    assert sender.hand_off(1, SMALL, 1)
    assert device.done == [(1, 0)]
    assert sender.counts["deferred_big"] == 2
    assert (sender.counts["task_enqueues"], sender.counts["task_coalesced"]) == (2, 1)
    task = driver(memory, device, "by_task")
    task.run_task()
    assert device.done == [(1, 0), (0, 0), (1, 1)]
    assert (task.counts["by_task"], task.counts["task_runs"]) == (2, 1)


def test_without_a_size_rule_the_caller_sends_the_large_frame(memory: Memory) -> None:
    device = Device()
    sender = driver(memory, device, direct_tx_size=0)
    assert sender.hand_off(0, BIG, 0)
    assert device.done == [(0, 0)]


def test_trylock_does_not_wait_for_a_lock_that_is_taken(memory: Memory) -> None:
    device = Device()
    sender = driver(memory, device)
    with memory.tx_lock:
        assert sender.hand_off(1, SMALL, 0)
    assert device.done == []
    assert (sender.counts["contended"], sender.counts["task_enqueues"]) == (1, 1)
    assert memory.taskq_wake.take()


def test_a_task_that_is_pending_is_queued_once_or_each_time(memory: Memory) -> None:
    device = Device()
    for way, runs in (("coalesced", 1), ("each", 3)):
        sender = driver(memory, device, **SCHED_ALL, taskq_enqueue=way)
        for number in range(3):
            sender.hand_off(1, SMALL, number)
        assert device.done == []
        woken = 0
        while memory.taskq_wake.take():
            woken += 1
            sender.run_task()
        assert woken == sender.counts["task_runs"] == runs
        assert not memory.words[PENDING_START]
        assert device.done == [(1, 0), (1, 1), (1, 2)]
        device.done.clear()


def test_a_device_that_is_full_goes_on_where_it_stopped(memory: Memory) -> None:
    device = Device(room=BIG + 1000)
    sender = driver(memory, device, **BLOCK)
    sender.hand_off(0, BIG, 0)
    sender.hand_off(0, BIG, 1)
    assert memory.words[OACTIVE] == 1
    assert sender.counts["no_txdescs"] == 1
    assert memory.refused.take()  # who waits for the device is woken
    sender.hand_off(1, SMALL, 0)  # not even tried
    assert sender.counts["skipped"] == 1
    driver(memory, device, "by_task", **BLOCK).start_task()  # nor by a task
    assert sender.counts["no_txdescs"] == 1
    assert not memory.refused.take()
    device.room = 1 << 40
    completion = driver(memory, device, "by_txeof", **BLOCK)
    completion.txeof()
    assert memory.words[OACTIVE] == 0
    assert device.done == [(0, 0), (0, 1), (1, 0)]
    assert device.taken_bytes == 2 * BIG + SMALL
    assert completion.counts["by_txeof"] == 2


def test_a_completion_that_finds_the_lock_taken_clears_the_flag_early(memory: Memory) -> None:
    device = Device()
    memory.words[OACTIVE] = 1
    memory.if_snd.append(0, BIG, 0)
    completion = driver(memory, device, "by_txeof")
    with memory.tx_lock:
        completion.txeof()
    assert memory.words[OACTIVE] == 0
    assert memory.words[PENDING_TXEOF] == 1
    memory.words[OACTIVE] = 1  # another met the full device meanwhile
    completion.run_task()
    assert memory.words[OACTIVE] == 0
    assert device.done == [(0, 0)]


def test_a_window_opens_when_the_device_has_the_frame(memory: Memory) -> None:
    while memory.windows[0].take():
        pass
    driver(memory, Device(), **BLOCK).hand_off(MEASURED, BIG, 0)
    assert memory.windows[0].take()
    assert not memory.windows[0].take()


def test_a_peer_that_is_gone_ends_the_run(memory: Memory) -> None:
    device = Device()
    device.is_gone = True
    sender = driver(memory, device, **BLOCK)
    sender.hand_off(0, BIG, 0)
    assert sender.gone == "Connection reset by peer"
    assert memory.words[GONE] == 1
    assert memory.is_over(0)


STEPS = st.sampled_from(["bulk", "small", "task", "txeof", "room", "taken"])


@given(
    st.sampled_from(["block", "trylock_taskq", "sched_all"]),
    st.sampled_from([0, 128, 1514]),
    st.lists(STEPS, max_size=80),
)
@settings(max_examples=150, deadline=None)
def test_frames_of_a_sender_stay_in_order_and_none_is_lost(
    if_start: str, direct_tx_size: int, steps: list[str]
) -> None:
    memory = Memory(bulk_senders=1, window_frames=1, bins=1, bin_s=1.0)
    try:
        device = Device(room=2 * BIG)
        policy: dict[str, Any] = {"if_start": if_start, "direct_tx_size": direct_tx_size}
        every = driver(memory, device, **policy)
        handed = [0, 0]
        for step in steps:
            if step in ("bulk", "small"):
                sender = int(step == "small")
                every.hand_off(sender, SMALL if sender else BIG, handed[sender])
                handed[sender] += 1
            elif step == "task":
                every.run_task()
            elif step == "txeof":
                every.txeof()
            elif step == "room":
                device.room += BIG // 2
            elif if_start != "block":  # another is in the middle of sending
                with memory.tx_lock:
                    every.start()
        device.room = 1 << 40
        every.txeof_task()
        for sender in (0, 1):
            numbers = [number for who, number in device.done if who == sender]
            assert numbers == list(range(handed[sender]))
    finally:
        memory.close()


def stream(frames: list[tuple[int, int, int]]) -> bytes:
    """Frames of (sender with or without mark, bytes, number)."""
    return b"".join(
        HEADER.pack(marked, 0, length, number) + bytes(length - HEADER.size)
        for marked, length, number in frames
    )


@given(st.lists(st.integers(16, 90), min_size=1, max_size=20), st.integers(1, 40))
def test_frames_are_found_however_the_stream_is_cut(lengths: list[int], step: int) -> None:
    told = stream([(3, length, number) for number, length in enumerate(lengths)])
    taken = Frames()
    for at in range(0, len(told), step):
        taken.feed(memoryview(told)[at : at + step])
    assert (taken.frames, taken.violations) == (len(lengths), 0)
    assert taken.measured_from is None


def test_measuring_begins_with_the_first_frame_that_is_marked() -> None:
    taken = Frames()
    taken.feed(memoryview(stream([(0, 20, 0), (MEASURED, 20, 1), (MEASURED | 1, 20, 0)])))
    assert (taken.measured_from, taken.violations) == (20, 0)


@pytest.mark.parametrize(
    "numbers", [[1], [0, 2], [0, 1, 1], [0, 2, 1]], ids=["late", "gap", "twice", "swapped"]
)
def test_frames_out_of_order_are_counted(numbers: list[int]) -> None:
    taken = Frames()
    taken.feed(memoryview(stream([(7, 16, number) for number in numbers])))
    assert taken.violations > 0


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(Fault) as caught:
        Frames().feed(memoryview(bytes(16)))
    assert caught.value.kind == "bad-output"


def test_throughput_and_its_steadiness() -> None:
    mbit = 1_000_000 // 8
    found = {
        each["name"]: each["value"]
        for each in figures.throughput([85 * mbit, 100 * mbit, 91 * mbit, 40 * mbit], 1.0, 100)
    }
    assert found["throughput"] == pytest.approx(0.079)
    assert found["of_line"] == pytest.approx(0.79)
    assert found["lowest_to_highest"] == pytest.approx(0.4)
    assert found["low_bins"] == pytest.approx(0.5)
    assert found["variation"] == pytest.approx(0.3365, rel=1e-2)
    assert "of_line" not in [each["name"] for each in figures.throughput([1], 1.0, 0)]
    assert figures.throughput([], 1.0, 100)[0]["value"] == 0.0


COMPLETE: dict[str, Any] = {"address": "10.0.0.1", "port": 1}


@pytest.mark.parametrize(
    ("changed", "kind", "field"),
    [
        ({"if_start": "sometimes"}, "bad-parameter", "if_start"),
        ({"direct_tx_size": 64}, "bad-parameter", "direct_tx_size"),
        ({"preset": "never"}, "bad-parameter", "preset"),
        ({"bulk_bytes": 1 << 20}, "bad-parameter", "bulk_bytes"),
        ({"preset": "before", "direct_tx_size": 128}, "inexpressible", "direct_tx_size"),
        ({"if_start": "sched_all"}, "inexpressible", "direct_tx_size"),
        ({"lock_kind": "spin", "concurrency": "threads"}, "inexpressible", "lock_kind"),
        ({"bulk_senders": 0, "small_senders": 0}, "inexpressible", "bulk_senders"),
        ({"runtime_s": 1.0, "bin_s": 0.9}, "inexpressible", "bin_s"),
    ],
)
def test_what_cannot_show_the_mechanism_is_refused(
    changed: dict[str, Any], kind: str, field: str
) -> None:
    with pytest.raises(Fault) as caught:
        told = split(MECHANISM, MECHANISM.parameters, {**COMPLETE, **changed})
        MECHANISM.check(told["policy"], told["parameters"])
    assert (caught.value.kind, caught.value.field) == (kind, f"parameters.{field}")


@pytest.mark.parametrize("preset", MECHANISM.presets)
def test_presets_pass_their_own_check_and_have_a_null_run(preset: str) -> None:
    told = split(MECHANISM, MECHANISM.parameters, {**COMPLETE, "preset": preset, "null_s": 0.05})
    MECHANISM.check(told["policy"], told["parameters"])
    frames, elapsed_s = null_cost(told["policy"], told["parameters"])
    assert frames > 10
    assert elapsed_s == pytest.approx(0.05, abs=0.04)


def test_a_device_of_nothing_takes_the_rest_of_a_frame() -> None:
    assert Nothing().transmit((0, 100, 0, 30)) == 70


class Nic:
    """Stands for a NIC behind ethtool's ioctls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, can_tso: bool = True) -> None:
        self.state = {"tso": can_tso, "gso": False}
        self.can_tso = can_tso
        by_command = {
            command: (name, command == change)
            for name, (ask, change) in offload._OFFLOADS.items()
            for command in (ask, change)
        }

        def ethtool(_endpoint: object, _device: str, command: int, value: bool = False) -> bool:
            name, is_change = by_command[command]
            if is_change and (name != "tso" or self.can_tso):
                self.state[name] = value
            return self.state[name]

        def put_back(_endpoint: object, _device: str, before: dict[str, bool]) -> None:
            self.state = before

        monkeypatch.setattr(offload, "_ethtool", ethtool)
        monkeypatch.setattr(offload, "_features", lambda *_: dict(self.state))
        monkeypatch.setattr(offload, "_put_back", put_back)
        monkeypatch.setattr(offload, "_device_towards", lambda *_: "lan0")


def test_offload_is_put_back_even_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    nic = Nic(monkeypatch)
    with pytest.raises(ZeroDivisionError), offload.offload("10.0.0.1", "off") as command:
        assert command == "ethtool -K lan0 tso off gso off"
        assert nic.state == {"tso": False, "gso": False}
        raise ZeroDivisionError
    assert nic.state == {"tso": True, "gso": False}


def test_offload_that_the_nic_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nic = Nic(monkeypatch, can_tso=False)
    with pytest.raises(Fault) as caught, offload.offload("10.0.0.1", "on"):
        pass
    assert (caught.value.kind, caught.value.field) == ("refused", "parameters.tso")
    assert nic.state == {"tso": False, "gso": False}


def test_offload_as_it_is_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nic = Nic(monkeypatch)
    with offload.offload("10.0.0.1", "as_is") as command:
        assert command == ""
        assert nic.state == {"tso": True, "gso": False}


def test_loopback_is_the_device_of_its_own_addresses() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        assert offload._device_towards(endpoint, "127.0.0.1") == "lo"
        assert offload._ethtool(endpoint, "lo", offload._OFFLOADS["gso"][0]) in (True, False)
        features = offload._features(endpoint, "lo")
        assert any(features)
        offload._put_back(endpoint, "lo", features)  # nothing to put back: nothing is set
        with pytest.raises(Fault) as caught:
            offload._ethtool(endpoint, "no-such-nic", offload._OFFLOADS["gso"][0])
        assert caught.value.kind == "refused"
