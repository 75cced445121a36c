"""What each process of a run does until the run is over, and what it reports."""

from __future__ import annotations

import fcntl
import select
import socket
import time

from datapath_agent.measurement.histogram import Histogram
from datapath_agent.mechanisms.ifstart.driver import Driver
from datapath_agent.mechanisms.ifstart.frames import MEASURED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.mechanisms.ifstart.device import Nothing, Stream
    from datapath_agent.mechanisms.ifstart.memory import Counter, Memory

    Report = dict[str, Any]
    Body = Callable[["Going"], Report]

LOOK_MS = 100
# After a full if_snd: TCP would come again after a while, too.
_AGAIN_S = 0.001
_SIOCGIFFLAGS = 0x8913
_IFREQ = b"lo".ljust(40, b"\0")


class Going:
    """Whether to go on; `wait()` returns once all members are ready."""

    def __init__(self, memory: Memory, wait: Callable[[], None], stop: Callable[[], bool]) -> None:
        self.wait = wait
        self._memory = memory
        self._stop = stop

    def on(self, now_ns: int) -> bool:
        return not (self._memory.is_over(now_ns) or self._stop())


def bulk(index: int, memory: Memory, device: Stream | Nothing, given: dict[str, Any]) -> Body:
    """A sender of large frames, as many as its window lets it queue."""
    length: int = given["bulk_bytes"]
    window = memory.windows[index]

    def body(going: Going) -> Report:
        driver = Driver(memory, device, given, "direct")
        poll = _poll(window)
        number = 0
        going.wait()
        while going.on(now_ns := time.monotonic_ns()):
            if not window.take():
                poll.poll(LOOK_MS)
                continue
            marked = index | (MEASURED if memory.is_measured(now_ns) else 0)
            if driver.hand_off(marked, length, number):
                number += 1
            else:
                window.post()
                time.sleep(_AGAIN_S)
        return _report(driver)

    return body


def small(index: int, memory: Memory, device: Stream | Nothing, given: dict[str, Any]) -> Body:
    """A sender of small frames at fixed times, which times its own hand-overs."""
    length: int = given["small_bytes"]
    every_ns: int = given["small_every_us"] * 1000

    def body(going: Going) -> Report:
        driver = Driver(memory, device, given, "direct")
        durations_ns = Histogram("ns")
        number = late = measured = longest_ns = 0
        going.wait()
        next_ns = time.monotonic_ns()
        while going.on(now_ns := time.monotonic_ns()):
            if now_ns < next_ns:
                time.sleep(min(next_ns - now_ns, LOOK_MS * 1_000_000) / 1e9)
                continue
            is_measured = memory.is_measured(now_ns)
            begun_ns = time.monotonic_ns()
            if driver.hand_off(index | (MEASURED if is_measured else 0), length, number):
                number += 1
            taken_ns = time.monotonic_ns() - begun_ns
            if is_measured:
                measured += 1
                durations_ns.add(taken_ns)
                longest_ns = max(longest_ns, taken_ns)
            next_ns += every_ns
            if begun_ns + taken_ns > next_ns:  # it does not make up for what it missed
                late += 1
                next_ns = begun_ns + taken_ns
        return {
            **_report(driver),
            "durations_ns": durations_ns.counts,
            "measured": measured,
            "longest_ns": longest_ns,
            "late": late,
        }

    return body


def completion(memory: Memory, device: Stream, given: dict[str, Any]) -> Body:
    """The device's interrupt: tells the driver when a device that was full takes frames again."""

    def body(going: Going) -> Report:
        driver = Driver(memory, device, given, "by_txeof")
        refused = _poll(memory.refused)
        writable = select.poll()
        writable.register(device.fileno(), select.POLLOUT)
        going.wait()
        is_waiting = False
        while going.on(time.monotonic_ns()):
            if not is_waiting:
                is_waiting = bool(refused.poll(LOOK_MS)) and memory.refused.take()
            elif writable.poll(LOOK_MS):
                is_waiting = False
                driver.txeof()
        return _report(driver)

    return body


def taskqueue(memory: Memory, device: Stream | Nothing, given: dict[str, Any]) -> Body:
    """A thread of the taskqueue."""

    def body(going: Going) -> Report:
        driver = Driver(memory, device, given, "by_task")
        poll = _poll(memory.taskq_wake)
        going.wait()
        while going.on(time.monotonic_ns()):
            if memory.taskq_wake.take():
                driver.run_task()
            else:
                poll.poll(LOOK_MS)
        return _report(driver)

    return body


def control(memory: Memory, given: dict[str, Any]) -> Body:
    """Administration: real ioctls under the main lock, which may be the TX lock."""
    lock = memory.tx_lock if given["tx_lock"] == "main" else memory.main_lock

    def body(going: Going) -> Report:
        runs = held_ns = 0
        going.wait()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
            while going.on(time.monotonic_ns()):
                time.sleep(min(given["control_every_ms"], LOOK_MS) / 1e3)
                with lock:
                    begun_ns = time.monotonic_ns()
                    for _ in range(given["control_ioctls"]):
                        fcntl.ioctl(endpoint, _SIOCGIFFLAGS, _IFREQ)
                    held_ns += time.monotonic_ns() - begun_ns
                runs += 1
        return {"counts": {}, "gone": "", "control_runs": runs, "control_held_ns": held_ns}

    return body


def _poll(counter: Counter) -> select.poll:
    poll = select.poll()
    poll.register(counter.fd, select.POLLIN)
    return poll


def _report(driver: Driver) -> Report:
    return {"counts": driver.counts, "gone": driver.gone}
