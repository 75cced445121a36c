"""One process's part: its queue pairs, its timed loop, and the check of what became of them."""

from __future__ import annotations

import gc
import time

from datapath_agent.measurement.usage import usage, used_since
from datapath_agent.mechanisms.verbs import attributes, capacity, cells
from datapath_agent.mechanisms.verbs.ring import nothing
from datapath_agent.mechanisms.verbs.steps import Clock, Request, delay_step, null_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from datapath_agent.mechanisms.verbs.queue_pairs import Device
    from datapath_agent.team import Member

# Requests between two looks at the stop flag.
_LOOK_EVERY = 8
_NULL_REQUESTS = 128


def at_once(policy: dict[str, Any], parameters: dict[str, Any]) -> int:
    """How many queue pairs a process has at the same time."""
    if parameters["create"] == "outside":
        return int(parameters["qps"])
    return int(parameters["window"]) if policy["user"] == "async" else 1


def needs_device(parameters: dict[str, Any]) -> bool:
    return bool(parameters["op"] == "rxe" or parameters["create"] == "in_loop")


def work(
    member: Member, policy: dict[str, Any], parameters: dict[str, Any], gid: dict[str, Any] | None
) -> dict[str, Any]:
    """Take all queue pairs through their states; a report of plain types."""
    clock = Clock(parameters["sample_every"])
    device = None
    if gid is not None:
        from datapath_agent.mechanisms.verbs.queue_pairs import Device

        device = Device(parameters["device"], gid)
        count = at_once(policy, parameters)
        capacity.refuse_beyond_device(count, parameters["procs"], device.most_qps)
        device.check_layout()
    make = _maker(policy, parameters, clock, device)
    # What is made here stays until the end: looking through it again and again finds no garbage.
    gc.disable()
    final = attributes.ERR if parameters["op"] == "rxe" else attributes.RESET
    wrong: dict[str, int] = {}
    finished = 0

    def examine(request: Request) -> None:
        if device and request.pair and (what := device.wrong(request.pair, final)):
            wrong[what] = wrong.get(what, 0) + 1

    def examine_and_destroy(request: Request) -> None:
        nonlocal finished
        finished += 1
        examine(request)
        if device:
            device.destroy(request.pair)

    if parameters["create"] == "outside":
        prepared = [make() for _ in range(parameters["qps"])]
        done: list[Request] = []
        member.ready()
        report = timed_loop(policy, parameters["window"], _until(member, prepared), done.append)
        finished = len(done)
        for request in done:
            examine(request)
    else:
        member.ready()
        made = (make() for _ in range(parameters["qps"]))
        requests = _until(member, made)
        report = timed_loop(policy, parameters["window"], requests, examine_and_destroy)
    return {
        **report,
        "finished": finished,
        "checked": finished if device else 0,
        "wrong": wrong,
        "samples_ns": clock.samples_ns,
    }


def timed_loop(
    policy: dict[str, Any],
    window: int,
    requests: Iterator[Request],
    finish: Callable[[Request], Any],
) -> dict[str, Any]:
    """One loop's begin and end (CLOCK_MONOTONIC seconds), what it used, and its evidence."""
    before = usage()
    start_s = time.monotonic()
    evidence = cells.drive(policy, window, requests, finish)
    end_s = time.monotonic()
    return {"start_s": start_s, "end_s": end_s, "used": used_since(before), **evidence.report()}


def null_loop(member: Member, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """The same loop over steps that do nothing, until loops have taken null_s together."""
    clock = Clock(parameters["sample_every"])
    make = _maker(policy, {**parameters, "op": "null"}, clock, None)
    gc.disable()
    member.ready()
    transitions = 0
    elapsed_s = 0.0
    while elapsed_s < parameters["null_s"] and not member.should_stop:
        prepared = [make() for _ in range(_NULL_REQUESTS)]
        done: list[Request] = []
        report = timed_loop(policy, parameters["window"], _until(member, prepared), done.append)
        transitions += 4 * len(done)
        elapsed_s += report["end_s"] - report["start_s"]
    return {"transitions": transitions, "elapsed_s": elapsed_s}


def _maker(
    policy: dict[str, Any], parameters: dict[str, Any], clock: Clock, device: Device | None
) -> Callable[[], Request]:
    """Makes the next request, with a queue pair of its own if there is a device."""
    if parameters["op"] == "rxe":
        assert device
        if policy["kernel"] == "io_wq":
            return lambda: _untimed(device.commands, device.create())
        steps = device.steps
        if parameters["call"] == "pyverbs":
            from datapath_agent.mechanisms.verbs.pyverbs_calls import steps

        def with_pair() -> Request:
            pair = device.create()
            return clock.request(steps(pair), pair)

        return with_pair
    if policy["kernel"] == "io_wq":
        return lambda: Request((nothing(),) * 4)
    step = null_step() if parameters["op"] == "null" else delay_step(parameters["delay_us"])
    if device:
        return lambda: clock.request((step,) * 4, device.create())
    return lambda: clock.request((step,) * 4)


def _untimed(steps: Callable[[Any], tuple[Any, ...]], pair: Any) -> Request:
    """Steps that are made elsewhere: only their completion is seen."""
    return Request(steps(pair), pair)


def _until(member: Member, requests: Any) -> Iterator[Request]:
    """`requests`, until the member has to stop."""
    for number, request in enumerate(requests):
        if number % _LOOK_EVERY == 0 and member.should_stop:
            return
        yield request
