"""The udp mechanism's parts: queues, sockets, rings, routes, both protocols and the figures."""

from __future__ import annotations

import os
import re
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from datapath_agent.mechanisms.udp import MECHANISM, figures, requests
from datapath_agent.mechanisms.udp.answers import Answers
from datapath_agent.mechanisms.udp.bulk import WINDOW, Bulk
from datapath_agent.mechanisms.udp.events import EventQueue, doorbell, ring
from datapath_agent.mechanisms.udp.lanes import Counts, Receiver, Sender
from datapath_agent.mechanisms.udp.null import null_cost
from datapath_agent.mechanisms.udp.placement import places
from datapath_agent.mechanisms.udp.requests import LOST_AFTER_US, Requests
from datapath_agent.mechanisms.udp.ring import SLOTS, Ring
from datapath_agent.mechanisms.udp.sockets import connected, listening
from datapath_agent.mechanisms.udp.wire import (
    ACKNOWLEDGE_EVERY,
    ACKNOWLEDGEMENT,
    BULK,
    DATAGRAM_BYTES,
    PIECE,
    REQUEST,
    pieces_of,
)
from datapath_agent.protocol import Fault
from hypothesis import given
from hypothesis import strategies as st

PEER = ("127.0.0.1", 4433)


# What the policies need of their parameters.

GIVEN = {"address": "x", "port": 1, "connections": 40, "in_flight": 20}


@pytest.mark.parametrize(
    ("chosen", "field"),
    [
        ({"send": "queue_datapath"}, "send"),
        ({"send": "queue_datapath", "profile": "realtime"}, "send"),
        ({"preset": "main", "profile": "maxtput"}, "send"),
        ({"route": "proc0"}, "route"),
        ({"profile": "realtime", "pin": False}, "pin"),
        ({"connections": 1, "in_flight": 1, "workers": 2}, "connections"),
        ({"in_flight": 41}, "in_flight"),
        ({"in_flight": 1, "workers": 2}, "in_flight"),
    ],
)
def test_what_cannot_show_the_mechanism_is_refused(chosen: dict[str, Any], field: str) -> None:
    from datapath_agent.mechanism import workloads

    prepare = workloads("udp", MECHANISM)["udp"].prepare
    with pytest.raises(Fault) as caught:
        prepare({**GIVEN, **chosen})
    assert (caught.value.kind, caught.value.field) == ("inexpressible", f"parameters.{field}")
    prepare({**GIVEN, "profile": "maxtput", "send": "queue_datapath"})


@given(
    cpus=st.integers(1, 32),
    workers=st.integers(1, 16),
    profile=st.sampled_from(["lowlat", "maxtput"]),
)
def test_every_busy_process_of_an_end_has_a_cpu_to_itself(
    cpus: int, workers: int, profile: str
) -> None:
    for is_server in (False, True):
        try:
            found = places(list(range(cpus)), {"profile": profile}, workers, is_server=is_server)
        except Fault as fault:
            assert (fault.kind, fault.field) == ("inexpressible", "parameters.workers")
            assert workers * (2 if profile == "maxtput" else 1) > cpus
            continue
        assert len(found) == workers
        used = [cpu for place in found for cpu in set(place)]
        assert len(used) == len(set(used)) and set(used) <= set(range(cpus))
        assert all((profile == "maxtput") == (place[0] != place[1]) for place in found)


def test_both_ends_in_one_guest_start_from_its_other_end_and_datapaths_are_two_apart() -> None:
    def of(cpus: int, profile: str, is_server: bool) -> list[tuple[int, int]]:
        found = places(list(range(cpus)), {"profile": profile}, 1, is_server=is_server)
        return [tuple(place) for place in found]

    assert (of(2, "lowlat", False), of(2, "lowlat", True)) == ([(0, 0)], [(1, 1)])
    assert (of(4, "maxtput", False), of(4, "maxtput", True)) == ([(0, 2)], [(3, 1)])


# The event queue.


@pytest.fixture
def events() -> Iterator[EventQueue]:
    fd = doorbell()
    yield EventQueue(fd)
    os.close(fd)


def test_what_is_posted_runs_in_a_later_turn(events: EventQueue) -> None:
    order: list[str] = []

    def first(name: str) -> None:
        order.append(name)
        events.post(order.append, "from within")

    events.post(first, "first")
    assert order == []
    assert events.turn(0)
    assert order == ["first"]
    assert events.turn(0)
    assert order == ["first", "from within"]
    assert not events.turn(0)
    assert events.wakeups == 2


@given(count=st.integers(0, 70))
def test_a_turn_takes_sixteen_and_none_is_left_behind(count: int) -> None:
    fd = doorbell()
    events = EventQueue(fd)
    done: list[int] = []
    for number in range(count):
        events.post(done.append, number)
    turns = 0
    while events.turn(0):
        turns += 1
        assert len(done) <= 16 * turns
    os.close(fd)
    assert done == list(range(count))
    assert turns == -(-count // 16)


def test_a_ring_from_outside_wakes_it(events: EventQueue) -> None:
    rung: list[bool] = []
    fd = doorbell()
    other = EventQueue(fd)
    other.watch_doorbell(lambda: rung.append(True))
    ring(fd)
    assert other.turn(0) and rung == [True]
    assert not other.turn(0)
    os.close(fd)


# Receiving and sending.


class Pair:
    """Two joined sockets; what arrives at one is received under a policy."""

    def __init__(self, inline_max: int, send: str = "inline") -> None:
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.counts = Counts()
        self.events = EventQueue(doorbell())
        self.sender = Sender(self.near, self.counts, index=0, cpu=0, is_server=False)
        if send == "queue_self":
            self.sender.post_to(self.events)
        self.delivered: list[bytes] = []
        Receiver(
            self.near,
            self.sender,
            self.events,
            self.counts,
            lambda _, datagram: self.delivered.append(datagram),
            inline_max=inline_max,
            is_server=False,
        )

    def arrive(self, count: int) -> list[bytes]:
        """That many datagrams have arrived (a UNIX socket holds about ten)."""
        sent = [b"%d" % number for number in range(count)]
        for datagram in sent:
            self.far.send(datagram)
        return sent


def test_inline_takes_all_that_is_there_in_one_turn() -> None:
    pair = Pair(inline_max=10)
    sent = pair.arrive(8)
    assert pair.events.turn(0) and not pair.events.turn(0)
    assert pair.delivered == sent
    counts = pair.counts
    assert (counts.recv_woken, counts.recv_inline, counts.recv_posted) == (1, 7, 0)


def test_queued_takes_one_a_turn_and_posts_the_next() -> None:
    pair = Pair(inline_max=0)
    sent = pair.arrive(4)
    for taken in range(1, 5):
        assert pair.events.turn(0)
        assert pair.delivered == sent[:taken]
    assert not pair.events.turn(0)
    counts = pair.counts
    assert (counts.recv_woken, counts.recv_inline, counts.recv_posted) == (1, 0, 3)


def test_beyond_the_inline_maximum_one_is_posted() -> None:
    pair = Pair(inline_max=2)
    sent = pair.arrive(8)
    assert pair.events.turn(0)
    assert pair.delivered == sent[:3]
    while pair.events.turn(0):
        pass
    assert pair.delivered == sent
    counts = pair.counts
    assert (counts.recv_woken, counts.recv_inline, counts.recv_posted) == (1, 5, 2)


@given(bursts=st.lists(st.integers(1, 8), max_size=6), inline_max=st.sampled_from([0, 1, 3, 10]))
def test_no_datagram_is_missed_or_out_of_order(bursts: list[int], inline_max: int) -> None:
    pair = Pair(inline_max)
    sent: list[bytes] = []
    for burst in bursts:
        sent += pair.arrive(burst)
        # While one is posted, more arrive: the edge must not be lost.
        pair.events.turn(0)
        if pair.delivered != sent:
            sent += pair.arrive(1)
        while pair.events.turn(0):
            pass
        assert pair.delivered == sent
    received = pair.counts.recv_woken + pair.counts.recv_inline + pair.counts.recv_posted
    assert received == len(sent)


def test_a_queued_send_leaves_in_a_later_turn() -> None:
    inline, queued = Pair(10), Pair(10, send="queue_self")
    for pair in (inline, queued):
        pair.sender.send(b"x")
    assert inline.far.recv(9) == b"x"
    with pytest.raises(BlockingIOError):
        queued.far.recv(9)
    assert queued.events.turn(0)
    assert queued.far.recv(9) == b"x"
    assert (inline.counts.sends_inline, inline.counts.sends_queued) == (1, 0)
    assert (queued.counts.sends_inline, queued.counts.sends_queued) == (0, 1)


def test_a_full_socket_drops_and_counts() -> None:
    pair = Pair(10)
    for _ in range(2000):
        pair.sender.send(b"x" * 1000)
    assert 0 < pair.counts.sends_dropped < 2000


def test_a_peer_belongs_to_the_worker_that_its_port_says() -> None:
    servers = listening("127.0.0.1", 0, 3)
    address = servers[0].getsockname()
    assert {server.getsockname() for server in servers} == {address}
    for client in connected(*address, 12):
        port = client.getsockname()[1]
        client.send(b"%d" % port)
        assert servers[port % 3].recv(9) == b"%d" % port


# The ring between two processes.

DATAGRAMS = st.one_of(
    st.binary(max_size=DATAGRAM_BYTES),
    st.tuples(
        st.binary(max_size=DATAGRAM_BYTES),
        st.tuples(st.ip_addresses(v=4).map(str), st.integers(1, 65535)),
    ),
)


@given(st.lists(st.lists(st.tuples(st.integers(0, 999), DATAGRAMS), max_size=20), max_size=5))
def test_a_ring_gives_back_what_was_put_in_order(batches: list[list[tuple[int, Any]]]) -> None:
    joined = Ring()
    for batch in batches:
        for index, datagram in batch:
            assert joined.put(index, datagram)
        assert list(joined.take()) == batch


def test_a_full_ring_refuses_and_goes_on_when_it_is_read() -> None:
    joined = Ring()
    for number in range(SLOTS):
        assert joined.put(0, b"%d" % number)
    assert not joined.put(0, b"too much")
    assert next(joined.take()) == (0, b"0")
    assert joined.put(0, b"fits now")
    assert [data for _, data in joined.take()][-1] == b"fits now"


# The protocols.


class StubSender:
    def __init__(self, index: int = 0, cpu: int = 0) -> None:
        self.index = index
        self.cpu = cpu
        self.sent: list[Any] = []
        self.send = self.sent.append


@given(st.integers(0, 65536))
def test_an_answer_is_cut_into_datagrams_that_hold_it(answer_bytes: int) -> None:
    pieces = pieces_of(answer_bytes)
    assert sum(len(payload) for _, _, payload in pieces) == answer_bytes
    assert all(PIECE.size + len(payload) <= DATAGRAM_BYTES for _, _, payload in pieces)
    assert [(index, count) for index, count, _ in pieces] == [
        (index, len(pieces)) for index in range(len(pieces))
    ]


@pytest.mark.parametrize(("answer_bytes", "count"), [(0, 1), (512, 1), (4096, 3), (16384, 12)])
def test_the_seeds_answers_take_so_many_datagrams(answer_bytes: int, count: int) -> None:
    server = Answers([StubSender()], "route_queue")  # type: ignore[list-item]
    back: Any = StubSender()
    server.deliver(back, (REQUEST.pack(answer_bytes, 7), PEER))
    assert [PIECE.unpack_from(data) for data, _ in back.sent] == [
        (7, index, count) for index in range(count)
    ]
    server.deliver(back, (b"short", PEER))
    assert server.answered == 1


def test_each_route_policy_finds_its_queue() -> None:
    queues: Any = [StubSender(cpu=cpu) for cpu in range(3)]

    def answered_by(policy: str, receivers: list[int]) -> int:
        server = Answers(queues, policy)
        for receiver in receivers:
            server.deliver(queues[receiver], (REQUEST.pack(0, 1), PEER))
        found = [at for at, queue in enumerate(queues) if queue.sent and queue.sent.pop()]
        for queue in queues:
            queue.sent.clear()
        return found[-1] if len(receivers) == 1 else found[0]

    assert answered_by("route_queue", [2]) == 2
    assert answered_by("proc0", [2]) == 0
    assert answered_by("ideal_lookup", [2]) == 2
    # A peer that moved: its route follows, its connection's ideal CPU does not.
    route = Answers(queues, "route_queue")
    ideal = Answers(queues, "ideal_lookup")
    for server, expected in ((route, 1), (ideal, 2)):
        for receiver in (2, 1):
            for queue in queues:
                queue.sent.clear()
            server.deliver(queues[receiver], (REQUEST.pack(0, 1), PEER))
        assert [at for at, queue in enumerate(queues) if queue.sent] == [expected]


class Clock:
    """Microseconds that pass when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.us = 1_000_000
        monkeypatch.setattr(requests, "now_us", lambda: self.us)
        monkeypatch.setattr("datapath_agent.mechanisms.udp.bulk.now_us", lambda: self.us)


class Wire:
    """Joins a client to a real server; `loses` says which requests never arrive."""

    def __init__(self, clock: Clock, count: int, answer_bytes: int, in_flight: int) -> None:
        self.clock = clock
        self.step_us = 100
        self.asked = 0
        self.lose: set[int] = set()
        self.answers: deque[bytes] = deque()
        self.server = Answers([], "route_queue")
        self.senders: Any = [StubSender(index) for index in range(count)]
        self.client = Requests(
            self.senders, answer_bytes=answer_bytes, request_bytes=8, in_flight=in_flight
        )

    def turn(self, timeout_s: float) -> bool:
        """One request of each connection reaches the server, whose answers come back."""
        moved = False
        for sender in self.senders:
            while sender.sent:
                self.asked += 1
                request = sender.sent.pop(0)
                if self.asked in self.lose:
                    continue
                back: Any = StubSender()
                self.server.deliver(back, (request, PEER))
                self.answers.extend(data for data, _ in back.sent)
        self.clock.us += self.step_us if self.answers else int(timeout_s * 1e6)
        while self.answers:
            self.client.deliver(self.senders[0], self.answers.popleft())
            moved = True
        return moved


def never() -> bool:
    return False


def test_the_loop_keeps_its_requests_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(Clock(monkeypatch), count=4, answer_bytes=4096, in_flight=3)
    wire.client.open(wire.turn, never)
    assert (wire.server.answered, wire.client.samples_us) == (4, [])
    wire.client.load(wire.turn, never, 0.01)
    assert len(wire.client.samples_us) == 3 * 100
    assert set(wire.client.samples_us) == {100}
    assert (wire.client.lost, wire.client.late) == (0, 0)
    # Little's law, exactly: 3 in flight, 100 us each.
    runtime_us = wire.client.end_us - wire.client.start_us
    assert len(wire.client.samples_us) * 100 == 3 * runtime_us


def test_a_lost_request_is_counted_and_stalls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(Clock(monkeypatch), count=2, answer_bytes=0, in_flight=2)
    wire.client.open(wire.turn, never)
    wire.lose = {wire.asked + 11}
    wire.client.load(wire.turn, never, 2.0)
    assert wire.client.lost == 1
    # Only one of two loops stood still, for as long as it takes to give up.
    whole = 2 * 2_000_000 // 100
    assert whole - len(wire.client.samples_us) == pytest.approx(LOST_AFTER_US / 100, rel=0.15)
    assert max(wire.client.samples_us) == 100


def test_an_answer_after_giving_up_is_late_and_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(Clock(monkeypatch), count=1, answer_bytes=4096, in_flight=1)
    wire.client.load(wire.turn, never, 0.001)
    before = len(wire.client.samples_us)
    for index in range(3):
        wire.client.deliver(wire.senders[0], PIECE.pack(1, index, 3))
    assert (wire.client.late, len(wire.client.samples_us)) == (3, before)


def test_a_piece_that_comes_twice_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    sender: Any = StubSender()
    client = Requests([sender], answer_bytes=4096, request_bytes=8, in_flight=1)
    client.load(lambda _: True, lambda: True, 1.0)
    for index in (0, 1, 1, 0, 1):
        client.deliver(sender, PIECE.pack(1, index, 3))
    assert client.samples_us == []
    client.deliver(sender, PIECE.pack(1, 2, 3))
    assert len(client.samples_us) == 1


def test_a_server_that_falls_silent_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    wire = Wire(clock, count=2, answer_bytes=0, in_flight=2)
    wire.client.open(wire.turn, never)
    wire.lose = set(range(wire.asked + 20, 10_000))
    with pytest.raises(Fault) as caught:
        wire.client.load(wire.turn, never, 60.0)
    assert caught.value.kind == "peer-gone"
    assert len(wire.client.samples_us) == 18 or len(wire.client.samples_us) == 19
    assert wire.client.end_us - wire.client.start_us < 4_000_000


def test_nobody_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(Clock(monkeypatch), count=2, answer_bytes=0, in_flight=2)
    wire.lose = set(range(1, 10_000))
    with pytest.raises(Fault, match="2 of 2 connections") as caught:
        wire.client.open(wire.turn, never)
    assert caught.value.kind == "no-answer"


def test_bulk_keeps_within_its_window_and_counts_what_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    server = Answers([], "route_queue")
    sender: Any = StubSender()
    client = Bulk([sender])
    seen = 0

    def turn(_timeout_s: float) -> bool:
        nonlocal seen
        assert len(sender.sent) <= WINDOW
        arrived, sender.sent[:] = list(sender.sent), []
        clock.us += 100 if arrived else 50_000
        for data in arrived:
            assert len(data) == DATAGRAM_BYTES
            assert REQUEST.unpack_from(data)[0] == BULK
            seen += 1
            if seen == 100:
                continue
            back: Any = StubSender()
            server.deliver(back, (data, PEER))
            for acknowledgement, _ in back.sent:
                assert ACKNOWLEDGEMENT.unpack(acknowledgement)[0] % ACKNOWLEDGE_EVERY == 0
                client.deliver(sender, acknowledgement)
        return bool(arrived)

    client.load(turn, never, 0.1)
    assert client.lost == 1
    assert seen - 1 - WINDOW <= client.delivered <= seen - 1


def test_a_null_run_completes_requests_without_a_socket() -> None:
    parameters = {
        "connections": 2, "in_flight": 2, "request_bytes": 8, "response_bytes": 4096,
        "null_s": 0.05,
    }  # fmt: skip
    completed, elapsed_s = null_cost({"route": "ideal_lookup"}, parameters)
    assert completed > 50
    assert 0.04 < elapsed_s < 1.0


# Figures.

# The published change's own first line.
PUBLISHED = (
    "Run 1: 5770 RPS, Minimum: 100, Maximum: 20423, Percentiles: 50th: 171.000000, "
    "90th: 258.000000, 99th: 269.000000, 99.9th: 285.000000, 99.99th: 1632.000000, "
    "99.999th: 19940.000000, 99.9999th: 20423.000000, Standard Error: 0.312330"
)


def test_lines_are_those_of_secnetperf() -> None:
    program, published = figures.secnetperf_lines(1234, [30, 10, 20, 40])
    assert program == (
        "Result: 1234 RPS, Min: 10, Max: 40, 50th: 30.000000, 90th: 40.000000, 99th: 40.000000, "
        "99.9th: 40.000000, 99.99th: 40.000000, 99.999th: 40.000000, 99.9999th: 40.000000, "
        "StdErr: 6.454972"
    )
    assert re.sub(r"[\d.]+(?=[,$ ]|$)", "N", published) == re.sub(
        r"[\d.]+(?=[,$ ]|$)", "N", PUBLISHED
    )
    assert "Minimum: 10" in published and published.endswith("Standard Error: 6.454972")


def test_requests_a_second_are_truncated_as_in_secnetperf() -> None:
    assert figures.requests_a_second(1999, 2_000_999) == 999
    assert figures.requests_a_second(1, 10) == 1000


def test_counters_are_added_up_and_divided_by_requests() -> None:
    one = dict.fromkeys((*figures._BY_REQUEST, "user_s", "system_s"), 2.0)
    total = figures.counters([one, one], 8)
    assert (total["sends_queued"], total["sends_queued_per_request"]) == (4, 0.5)
    assert total["cpu_us_per_request"] == 1e6
    assert figures.counters([], 8) == {}
