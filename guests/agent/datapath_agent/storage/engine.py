"""A closed loop of requests to one disk, in one process, without a bytecode a request.

What has to be done for each request (next control block, latency) goes through map() and dict
methods, which run in C: in an emulated guest a bytecode takes about as long as a read of a word
of memory by the device.
"""

from __future__ import annotations

import mmap
import os
import time

from datapath_agent.protocol import Fault
from datapath_agent.storage import room
from datapath_agent.storage.aio import Context, address_of, error_of
from datapath_agent.storage.plan import Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_NS = 50_000_000
_DRAIN_S = 1.0
_HUGE_BYTES = 2 << 20


class Drive:
    """What a closed loop did: latencies in nanoseconds, from hand-over to the event's arrival."""

    def __init__(self) -> None:
        self.latencies_ns: list[int] = []
        self.elapsed_s = 0.0
        self.batches = 0


def _buffers(byte_count: int) -> tuple[mmap.mmap, int]:
    """Memory, and the address in it from which there are `byte_count` bytes in whole huge pages.

    A block in 4 KiB pages has more pieces than a SCSI command takes, and is split into several.
    """
    size = -(-byte_count // _HUGE_BYTES) * _HUGE_BYTES + _HUGE_BYTES
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory, -(-address_of(memory) // _HUGE_BYTES) * _HUGE_BYTES


def _fill(memory: mmap.mmap) -> None:
    """What is written does not compress."""
    noise = os.urandom(1 << 20)
    for at in range(0, len(memory), len(noise)):
        memory[at : at + len(noise)] = noise


def drive(
    *,
    fd: int,
    disk_bytes: int,
    pattern: str,
    block_bytes: int,
    outstanding: int,
    runtime_s: float,
    stopped: Callable[[], object],
) -> Drive:
    """Keep `outstanding` requests in flight for `runtime_s`, or until `stopped()`.

    Raises Fault when a request fails, with no more said than the first failure's reason.
    """
    room.check(outstanding * block_bytes, "outstanding")
    buffers, address = _buffers(outstanding * block_bytes)
    plan = Plan(
        fd=fd,
        disk_bytes=disk_bytes,
        pattern=pattern,
        block_bytes=block_bytes,
        outstanding=outstanding,
        buffers_address=address,
    )
    _fill(buffers)
    done = Drive()
    with Context(outstanding) as context:
        _loop(context, plan, block_bytes, runtime_s, stopped, done)
    return done


def _loop(
    context: Context,
    plan: Plan,
    block_bytes: int,
    runtime_s: float,
    stopped: Callable[[], object],
    done: Drive,
) -> None:
    next_block = plan.next_block.__getitem__
    keep = done.latencies_ns.extend
    clock_ns = time.monotonic_ns
    starting = plan.first_blocks
    now_ns = begin_ns = clock_ns()
    end_ns = begin_ns + int(runtime_s * 1e9)
    look_ns = begin_ns + _LOOK_NS
    # When each request in flight was handed over, by its control block's address.
    started_ns: dict[int, int] = {}
    while True:
        started_ns.update(dict.fromkeys(starting, now_ns))
        context.submit(starting)
        completed, _, results = context.wait(1)
        now_ns = clock_ns()
        keep(map(now_ns.__sub__, map(started_ns.pop, completed)))
        if results.count(block_bytes) != len(results):
            raise _failure(results, block_bytes)
        done.batches += 1
        if now_ns >= look_ns:
            if now_ns >= end_ns or stopped():
                break
            look_ns = min(now_ns + _LOOK_NS, end_ns)
        starting = list(map(next_block, completed))
    done.elapsed_s = (now_ns - begin_ns) / 1e9
    _drain(context, len(started_ns))


def _drain(context: Context, count: int) -> None:
    """Wait for what is still in flight: its buffers are about to go. Not part of the figures."""
    end_s = time.monotonic() + _DRAIN_S
    while count and time.monotonic() < end_s:
        count -= len(context.wait(count)[0])


def _failure(results: list[int], block_bytes: int) -> Fault:
    bad = next(result for result in results if result != block_bytes)
    return Fault("tool-failed", f"a request of {block_bytes} bytes failed: {error_of(bad)}")
