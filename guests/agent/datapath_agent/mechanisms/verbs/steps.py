"""What a transition is: a request's four steps, each a callable that returns 0 or an errno."""

from __future__ import annotations

import ctypes
import time
from functools import partial

from datapath_agent.mechanisms.verbs.attributes import TRANSITIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # A callable, or for the kernel's own workers the request that they are given.
    Step = Any


if TYPE_CHECKING:
    _List = list[Step]
else:
    _List = list


class Request(_List):
    """The steps left to make, the next one last; `pair` is the queue pair they belong to."""

    __slots__ = ("pair",)

    def __init__(self, steps: tuple[Step, ...], pair: Any = None) -> None:
        super().__init__(reversed(steps))
        self.pair = pair


class Clock:
    """Durations of the steps of every so many requests, in nanoseconds by transition.

    A step lasts as its thread sees it: with the wait for the GIL after its call.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._made = 0
        self.samples_ns: dict[str, list[int]] = {name: [] for name in TRANSITIONS}

    def request(self, steps: tuple[Step, ...], pair: Any = None) -> Request:
        self._made += 1
        if (self._made - 1) % self._every == 0:
            steps = tuple(map(_timed, steps, self.samples_ns.values()))
        return Request(steps, pair)


def _timed(step: Step, samples_ns: list[int]) -> Step:
    clock = time.monotonic_ns

    def timed() -> int:
        start_ns = clock()
        status: int = step()
        samples_ns.append(clock() - start_ns)
        return status

    return timed


def null_step() -> Step:
    """Calls a C function that returns 0 at once, with the arguments of ibv_modify_qp."""
    pair, attributes = ctypes.c_char(), ctypes.c_char()
    step: Step = partial(
        ctypes.CDLL(None).pthread_equal, ctypes.byref(pair), ctypes.byref(attributes), 1
    )
    return step


def delay_step(delay_us: int) -> Step:
    """Sleeps without the GIL and without a processor, as the caller of a slow device does."""
    _sleep_to_the_point()
    step: Step = partial(ctypes.CDLL(None).usleep, delay_us)
    return step


def _sleep_to_the_point() -> None:
    """Else the kernel adds up to 50 us to each sleep; threads started from here on inherit it."""
    set_timer_slack = 29
    ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)
