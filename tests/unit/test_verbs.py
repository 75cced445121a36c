"""The verbs mechanism on this host, which has no RDMA device: op=null and op=delay run for real."""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from datapath_agent.mechanisms.verbs import attributes, capacity, cells
from datapath_agent.mechanisms.verbs.steps import Clock, Request
from datapath_agent.mechanisms.verbs.work_queue import WorkerDied, WorkQueue
from datapath_agent.protocol import Fault
from hypothesis import given
from hypothesis import strategies as st

from lab.deadline import Deadline
from lab.errors import InputError
from lab.guest import catalogue
from lab.guest.agent_client import AgentClient, AgentError, Result
from lab.guest.workloads import GivenWorkload
from tests.unit.test_agent import (  # noqa: F401
    ProcessChannel,
    agent,
    agent_file,
    channel,
    tools,
)

CELLS = [(user, kernel) for user in ("sync", "async") for kernel in ("sync", "workitem", "hinted")]
HEADER = Path("/usr/include/infiniband/verbs.h")


def run(agent: AgentClient, **given: Any) -> Result:  # noqa: F811
    workload = GivenWorkload("verbs", {"null_s": 0.05, **given})
    return agent.run(workload, deadline=Deadline(60))


def counters(result: Result) -> dict[str, float]:
    assert result.mechanism
    return dict(result.mechanism.counters)


# The issuing of transitions


class Journal:
    """Requests whose steps write down that they were made."""

    def __init__(self, count: int, step_s: float = 0.0) -> None:
        self.made: list[tuple[int, int]] = []
        self.finished: list[Request] = []
        self.requests = [
            Request(tuple(self._step(pair, number, step_s) for number in range(4)), pair)
            for pair in range(count)
        ]

    def _step(self, pair: int, number: int, step_s: float) -> Callable[[], int]:
        def step() -> int:
            time.sleep(step_s)
            self.made.append((pair, number))
            return 0

        return step

    def drive(self, user: str, kernel: str, window: int) -> cells.Evidence:
        policy = {"user": user, "kernel": kernel}
        return cells.drive(policy, window, iter(self.requests), self.finished.append)


@given(cell=st.sampled_from(CELLS), count=st.integers(0, 40), window=st.integers(2, 50))
def test_every_pair_goes_through_its_four_steps_in_order(
    cell: tuple[str, str], count: int, window: int
) -> None:
    journal = Journal(count)
    evidence = journal.drive(*cell, window)
    for pair in range(count):
        assert [number for which, number in journal.made if which == pair] == [0, 1, 2, 3]
    assert len(journal.made) == 4 * count
    assert sorted(request.pair for request in journal.finished) == list(range(count))
    assert not any(journal.finished)
    assert sum(evidence.under_way) in (0, 4 * count)
    assert evidence.failed == []


@pytest.mark.parametrize(("user", "kernel"), CELLS)
def test_how_many_are_in_flight(user: str, kernel: str) -> None:
    """Sync has one pair under way, async as many as the window; a work item overlaps them."""
    window = 6
    journal = Journal(20, step_s=0.002)
    evidence = journal.drive(user, kernel, window)
    begun = 0
    most = 0
    left = {request.pair: 4 for request in journal.requests}
    for pair, number in journal.made:
        begun += number == 0
        left[pair] -= 1
        most = max(most, begun - sum(count == 0 for count in left.values()))
    if user == "sync":
        assert most == 1
        assert max((n for n, count in enumerate(evidence.under_way) if count), default=1) == 1
    else:
        assert 1 < most <= window
    if user == "async" and kernel != "sync":
        assert evidence.longest_queue > 1
        assert sum(evidence.under_way[2:]) > sum(evidence.under_way) / 2
    if kernel == "sync" or (user, kernel) == ("sync", "hinted"):
        assert evidence.workers == 0
        assert evidence.longest_queue == 0


def test_the_queue_is_last_in_first_out() -> None:
    journal = Journal(5)
    queue = WorkQueue(workers=1, low=10)
    release = deque[bool]()

    def wait() -> int:
        while not release:
            time.sleep(0.001)
        return 0

    queue.insert(Request((wait,)))
    time.sleep(0.05)  # the worker has it, and waits
    for request in journal.requests:
        queue.insert(request)
    release.append(True)
    for _ in range(6):
        queue.take()
    queue.close()
    assert journal.made == [(pair, 0) for pair in (4, 3, 2, 1, 0)]
    assert queue.longest == 5


@pytest.mark.parametrize(("user", "kernel"), CELLS)
def test_a_transition_that_fails_is_counted_and_the_others_go_on(user: str, kernel: str) -> None:
    journal = Journal(10)
    journal.requests[3] = Request((lambda: 22, lambda: 22, lambda: 22, lambda: 0), 3)
    evidence = journal.drive(user, kernel, 4)
    assert evidence.failed == [22, 22, 22]
    assert len(journal.finished) == 10


@pytest.mark.parametrize("user", ["sync", "async"])
def test_a_worker_that_dies_ends_the_run_with_its_error(user: str) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    requests = [Request((broken,) * 4, pair) for pair in range(8)]
    with pytest.raises(WorkerDied, match="ZeroDivisionError"):
        cells.drive({"user": user, "kernel": "workitem"}, 4, iter(requests), lambda _: None)


def test_every_so_many_pairs_are_timed_each_transition_for_itself() -> None:
    clock = Clock(every=4)
    for _ in range(10):
        request = clock.request((lambda: time.sleep(0.001) or 0, *(lambda: 0,) * 3))
        while request:
            assert request.pop()() == 0
    assert {name: len(samples) for name, samples in clock.samples_ns.items()} == {
        "init": 3, "rtr": 3, "rts": 3, "err": 3,
    }  # fmt: skip
    assert min(clock.samples_ns["init"]) >= 1_000_000 > min(clock.samples_ns["rtr"])


# What cannot be


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"user": "async", "call": "pyverbs"}, "call", "holds the GIL"),
        ({"preset": "async_workitem", "call": "pyverbs"}, "call", "holds the GIL"),
        ({"op": "delay", "call": "pyverbs"}, "call", "calls no verb"),
        ({"user": "async", "window": 1}, "window", "async is sync"),
        ({"user": "async", "window": 64, "qps": 32}, "window", "never that many"),
        ({"op": "null", "create": "in_loop"}, "create", "no queue pairs"),
    ],
)
def test_what_cannot_show_the_mechanism_is_refused_with_the_reason(
    given: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InputError, match=f"{field}: .*{words}"):
        catalogue.find("verbs").check(given)


@pytest.mark.parametrize(
    "given",
    [{"user": "overlapped"}, {"kernel": "polled"}, {"procs": 3}, {"op": "mlx5"}, {"qps": 0},
     {"delay_us": 1_000_000}],
)  # fmt: skip
def test_an_unknown_value_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        catalogue.find("verbs").check(given)


def test_more_queue_pairs_than_a_guest_can_have_are_refused_before_it_tries() -> None:
    roomy = capacity.Limits(available_kib=700 << 10, most_mappings=65530)
    capacity.refuse_too_many(8000, 4, roomy)
    for at_once, procs, there, words in (
        (40_000, 1, roomy._replace(available_kib=9 << 20), "max_map_count is 65530"),
        (20_000, 2, roomy, "20 KiB"),
        (1, 1, roomy._replace(available_kib=1000), "more than the 0"),
    ):
        with pytest.raises(Fault, match=words) as caught:
            capacity.refuse_too_many(at_once, procs, there)
        assert (caught.value.kind, caught.value.field) == ("refused", "parameters.qps")
    with pytest.raises(Fault, match="the device has 1000"):
        capacity.refuse_beyond_device(600, 2, 1000)


def test_a_missing_device_is_named(agent: AgentClient) -> None:  # noqa: F811
    with pytest.raises(AgentError, match="no RDMA device 'rxe7'") as caught:
        run(agent, device="rxe7")
    assert caught.value.field == "parameters.device"


# The whole of it, over nothing and over a stand-in for a device


@pytest.mark.parametrize(("user", "kernel"), CELLS)
def test_a_run_reports_what_it_did(agent: AgentClient, user: str, kernel: str) -> None:  # noqa: F811
    result = run(agent, user=user, kernel=kernel, op="delay", delay_us=100, qps=200, sample_every=4)
    seen = counters(result)
    assert seen["modifies"] == 800
    assert result["failures"].value == 0
    assert {name: len(samples) for name, samples in result.samples.items()} == {
        "init_ns": 50, "rtr_ns": 50, "rts_ns": 50, "err_ns": 50,
    }  # fmt: skip
    assert min(min(samples) for samples in result.samples.values()) >= 100_000
    assert result["init_p50"].value == sorted(result.samples["init_ns"])[25] / 1000
    told = result.mechanism
    assert told
    assert result.fidelity == "model"
    assert "declared synthetic" in told.layer
    assert told.harness.runs == 3
    assert 0 < told.harness.cost_us < 1000
    is_overlapped = user == "async" and kernel != "sync"
    assert (seen["overlapped_modifies"] > 0) == (is_overlapped and seen["workers"] > 1)
    assert seen["longest_queue"] == pytest.approx(64 if is_overlapped else 1, abs=1)
    assert seen["switches_per_modify"] >= 0.5  # each sleeps


def test_processes_start_together_and_all_count(agent: AgentClient) -> None:  # noqa: F811
    result = run(agent, op="delay", delay_us=500, procs=4, qps=50)
    assert counters(result)["modifies"] == 4 * 50 * 4
    # Side by side: had they run one after the other, it would be four times as long.
    assert result["elapsed"].value < 2 * 50 * 4 * 0.0007
    assert result["qps"].value == pytest.approx(200 / result["elapsed"].value)


def test_the_null_op_calls_no_verb(agent: AgentClient) -> None:  # noqa: F811
    result = run(agent, op="null", preset="async_workitem", qps=500)
    assert result["failures"].value == 0
    assert counters(result)["checked_final_states"] == 0
    assert result.mechanism
    assert "harness alone" in result.mechanism.layer


def test_a_run_that_is_stopped_keeps_what_it_has(channel: ProcessChannel) -> None:  # noqa: F811
    parameters = {"op": "delay", "delay_us": 1000, "qps": 20_000, "null_s": 0.05}
    request = {"id": 1, "op": "run", "workload": "verbs", "deadline_s": 60}
    (progress,) = channel.exchange({**request, "parameters": parameters}, events=1)
    assert progress["event"] == "progress"
    time.sleep(3)  # its requests are made, and some have gone through
    channel.send(b'{"id": 1, "op": "stop"}\n')
    start_s = time.monotonic()
    events = [progress]
    while events[-1]["event"] not in ("stopped", "error", "result"):
        events += channel.exchange(events=1)
    while channel.tree() and time.monotonic() - start_s < 2:
        time.sleep(0.02)
    assert channel.tree() == []
    assert events[-1]["reason"] == "requested"
    told = events[-1]["result"]
    assert told["partial"]
    assert 0 < told["counters"]["modifies"] < 80_000


# The mirror of struct ibv_qp_attr


def fields() -> Iterator[tuple[str, int, int]]:
    """(C expression, offset, size) of each field of the mirror."""
    for name, kind in attributes.QpAttributes._fields_:
        place = getattr(attributes.QpAttributes, name)
        yield name, place.offset, place.size
        if kind is attributes.AddressHandle:
            for inner, inner_kind in attributes.AddressHandle._fields_:
                within = getattr(attributes.AddressHandle, inner)
                yield f"{name}.{inner}", place.offset + within.offset, within.size
                if inner_kind is attributes.GlobalRoute:
                    for last, _ in attributes.GlobalRoute._fields_:
                        deepest = getattr(attributes.GlobalRoute, last)
                        offset = place.offset + within.offset + deepest.offset
                        yield f"{name}.{inner}.{last}", offset, deepest.size


def test_the_mirror_has_no_gap_wider_than_alignment() -> None:
    places = sorted((offset, size) for name, offset, size in fields() if "." not in name)
    for (offset, size), (following, _) in pairwise(places):
        assert 0 <= following - (offset + size) < 8


@pytest.mark.skipif(not HEADER.exists(), reason="libibverbs-dev is not installed")
def test_the_mirror_is_laid_out_as_the_header_says(tmp_path: Path) -> None:
    each = list(fields())
    lines = [
        f'printf("%zu %zu\\n", offsetof(struct ibv_qp_attr, {name}), '
        f"sizeof(((struct ibv_qp_attr *)0)->{name}));"
        for name, _, _ in each
    ]
    masks = ("INIT_MASK", "RTR_MASK", "RTS_MASK", "ERR_MASK")
    of_header = (
        "IBV_QP_STATE|IBV_QP_PKEY_INDEX|IBV_QP_PORT|IBV_QP_ACCESS_FLAGS",
        "IBV_QP_STATE|IBV_QP_AV|IBV_QP_PATH_MTU|IBV_QP_DEST_QPN|IBV_QP_RQ_PSN"
        "|IBV_QP_MAX_DEST_RD_ATOMIC|IBV_QP_MIN_RNR_TIMER",
        "IBV_QP_STATE|IBV_QP_TIMEOUT|IBV_QP_RETRY_CNT|IBV_QP_RNR_RETRY|IBV_QP_SQ_PSN"
        "|IBV_QP_MAX_QP_RD_ATOMIC",
        "IBV_QP_STATE",
    )
    lines += [f'printf("%d 0\\n", {mask});' for mask in of_header]
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\n"
        "int main(void) {\n" + "\n".join(lines) + "\n}\n"
    )
    program = tmp_path / "layout"
    subprocess.run(["gcc", "-o", program, source], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    found = [tuple(map(int, line.split())) for line in said.splitlines()]
    assert found == [(offset, size) for _, offset, size in each] + [
        (getattr(attributes, mask), 0) for mask in masks
    ]


@given(data=st.data())
def test_a_field_that_comes_back_changed_is_found(data: st.DataObject) -> None:
    rtr = attributes.to_rtr(
        dest_qp_num=17, rq_psn=51, path_mtu=5, gid=bytes(range(16)), gid_index=1
    )
    rts = attributes.to_rts(sq_psn=85)
    found = attributes.QpAttributes.from_buffer_copy(rtr)
    found.qp_state = attributes.RTS
    for source, names in (
        (attributes.to_init(), ("port_num", "qp_access_flags")),
        (rts, ("sq_psn", "timeout", "retry_cnt", "rnr_retry", "max_rd_atomic")),
    ):
        for name in names:
            setattr(found, name, getattr(source, name))
    assert attributes.differences(found, rtr, rts) == []
    name = data.draw(st.sampled_from(["rq_psn", "sq_psn", "path_mtu", "timeout", "dest_qp_num"]))
    setattr(found, name, getattr(found, name) + 1)
    (difference,) = attributes.differences(found, rtr, rts)
    assert difference.startswith(name)
