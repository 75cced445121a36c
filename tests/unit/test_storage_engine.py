"""The agent's storage engine on a file of this host: batches, plans, errors, data in its place."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datapath_agent import disks, registry, workload
from datapath_agent.protocol import Fault
from datapath_agent.storage import aio, engine
from datapath_agent.storage.plan import MOST_BLOCKS, Plan
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20
DISK_BYTES = 8 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "data0"
    path.write_bytes(os.urandom(DISK_BYTES))
    return path


@pytest.fixture
def fd(disk: Path) -> Iterator[int]:
    number = aio.open_direct(str(disk), writing=True)
    yield number
    os.close(number)


def drive(fd: int, **given: Any) -> engine.Drive:
    asked = {
        "fd": fd, "disk_bytes": DISK_BYTES, "pattern": "randread", "block_bytes": 4096,
        "outstanding": 8, "runtime_s": 0.1, "stopped": lambda: None, **given,
    }  # fmt: skip
    return engine.drive(**asked)


@pytest.mark.parametrize("pattern", ["read", "write", "randread", "randwrite"])
def test_every_request_has_a_latency(fd: int, pattern: str) -> None:
    done = drive(fd, pattern=pattern)
    assert done.elapsed_s >= 0.1
    assert len(done.latencies_ns) > 0
    assert 1 <= len(done.latencies_ns) / done.batches <= 8
    assert all(0 < latency_ns < 2e9 for latency_ns in done.latencies_ns)


def test_a_written_block_is_where_it_belongs(fd: int, disk: Path) -> None:
    """Two requests through the context itself, with different offsets and buffers."""
    memory = mmap.mmap(-1, 8192)
    memory[:4096], memory[4096:] = b"a" * 4096, b"b" * 4096
    address = aio.address_of(memory)
    blocks = aio.control_block(aio.WRITE, fd, address, 4096) * 2
    blocks[aio.WORDS_A_BLOCK + aio.BUFFER_WORD] = address + 4096
    blocks[aio.OFFSET_WORD] = 3 * 4096
    blocks[aio.WORDS_A_BLOCK + aio.OFFSET_WORD] = 5 * 4096
    blocks[aio.DATA_WORD], blocks[aio.WORDS_A_BLOCK + aio.DATA_WORD] = 11, 12
    first = blocks.buffer_info()[0]
    with aio.Context(4) as context:
        context.submit([first, first + aio.BYTES_A_BLOCK])
        addresses, tags, results = [], [], []
        while len(tags) < 2:
            for told, more in zip((addresses, tags, results), context.wait(1), strict=True):
                told += more
    assert sorted(addresses) == [first, first + aio.BYTES_A_BLOCK]
    assert sorted(tags) == [11, 12]
    assert results == [4096, 4096]
    content = disk.read_bytes()
    assert content[3 * 4096 : 4 * 4096] == b"a" * 4096
    assert content[5 * 4096 : 6 * 4096] == b"b" * 4096


def test_a_failed_request_is_an_error_that_says_why(fd: int) -> None:
    with pytest.raises(Fault, match=r"a request of 4096 bytes failed: only 0 bytes") as caught:
        # Beyond the end of the file; long enough to come there.
        drive(fd, pattern="read", disk_bytes=2 * DISK_BYTES, runtime_s=10)
    assert caught.value.kind == "tool-failed"


def test_it_ends_when_told_to(fd: int) -> None:
    assert drive(fd, runtime_s=60, stopped=lambda: "requested").elapsed_s < 5


def test_the_kernel_gets_everything_back(fd: int) -> None:
    before = int(Path("/proc/sys/fs/aio-nr").read_text())
    with aio.Context(8):
        assert int(Path("/proc/sys/fs/aio-nr").read_text()) > before
    # The kernel gives a context's share back a moment after its end.
    drive(fd)
    assert int(Path("/proc/sys/fs/aio-nr").read_text()) <= before + 64


@given(
    outstanding=st.integers(1, 64),
    places=st.integers(1, 3000),
    pattern=st.sampled_from(["read", "randwrite"]),
)
def test_a_plan_keeps_slots_apart_and_inside_the_disk(
    outstanding: int, places: int, pattern: str
) -> None:
    asked = {
        "fd": 9, "disk_bytes": places * 512 + 100, "pattern": pattern, "block_bytes": 512,
        "outstanding": outstanding, "buffers_address": 1 << 20,
    }  # fmt: skip
    if places < outstanding:
        with pytest.raises(Fault, match="do not fit"):
            Plan(**asked)
        return
    plan = Plan(**asked)
    assert len(plan.first_blocks) == outstanding
    assert len(plan.next_block) <= MOST_BLOCKS
    words, begin = plan.words, plan.first_blocks[0]
    offsets = []
    for slot, first in enumerate(plan.first_blocks):
        address, chain = first, []
        while True:
            at = (address - begin) // 8
            assert words[at + aio.BUFFER_WORD] == (1 << 20) + slot * 512
            assert words[at + aio.OFFSET_WORD] + 512 <= places * 512
            chain.append(words[at + aio.OFFSET_WORD])
            address = plan.next_block[address]
            if address == first:
                break
        offsets.append(chain)
    if pattern == "read":
        inorder = [offset for turn in zip(*offsets, strict=True) for offset in turn]
        assert inorder == [512 * number for number in range(len(inorder))]


class StubRun:
    stop_reason: str | None = None

    def progress(self, doing: str) -> None: ...


def test_the_disk_workload_measures(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "claim", lambda serial: str(disk))
    found = registry.find("disk")
    asked = {"disk": "data0", "pattern": "randwrite", "runtime_s": 0.1, "outstanding": 4}
    result = found.run(StubRun(), workload.prepare(found, asked))
    figures = {each["name"]: each["value"] for each in result["metrics"]}
    assert figures["write_iops"] > 0
    assert figures["write_throughput"] == pytest.approx(figures["write_iops"] / 256)
    assert figures["latency_p50"] <= figures["latency_p99"] <= figures["latency_max"]
    assert result["samples"]["latency_us"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"block_bytes": 1000}, "parameters.block_bytes"),
        ({"outstanding": 1024, "block_bytes": MIB}, "parameters.outstanding"),
        ({"pattern": "backwards"}, "parameters.pattern"),
        ({"disk": "data9"}, "parameters.disk"),
    ],
)
def test_what_cannot_be_is_refused(
    disk: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], field: str
) -> None:
    if "disk" not in given:
        monkeypatch.setattr(disks, "claim", lambda serial: str(disk))
    found = registry.find("disk")
    with pytest.raises(Fault) as caught:
        found.run(
            StubRun(),
            workload.prepare(found, {"disk": "data0", "pattern": "read", **given}),
        )
    assert caught.value.field == field
