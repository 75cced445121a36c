"""The server's protocol: a route for each peer, and an answer to each request."""

from __future__ import annotations

from datapath_agent.mechanisms.udp.wire import (
    ACKNOWLEDGE_EVERY,
    ACKNOWLEDGEMENT,
    BULK,
    PIECE,
    REQUEST,
    pieces_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from datapath_agent.mechanisms.udp.lanes import Datagram, Sender

    Peer = tuple[str, int]

_LARGEST_ANSWER_BYTES = 65536


class Route:
    """The way back to a peer, and how much bulk came from it."""

    def __init__(self, queue: Sender) -> None:
        self.queue = queue  # of the worker that last received from the peer
        self.ideal_cpu = queue.cpu  # of the connection: where it was first seen
        self.bulk_received = 0
        self.bulk_highest = 0


def finder(policy: str, senders: list[Sender]) -> Callable[[Route], Sender]:
    """How a send finds its queue, for a value of the policy `route`."""
    if policy == "route_queue":
        return lambda route: route.queue
    if policy == "proc0":
        return lambda route: senders[0]

    def by_ideal_cpu(route: Route) -> Sender:
        ideal_cpu = route.ideal_cpu
        for sender in senders:
            if sender.cpu == ideal_cpu:
                return sender
        return senders[0]

    return by_ideal_cpu


class Answers:
    """A worker of the server."""

    def __init__(self, senders: list[Sender], route_policy: str) -> None:
        self.answered = 0
        self.bulk_received = 0
        self._find = finder(route_policy, senders)
        self._routes: dict[Peer, Route] = {}
        self._pieces: dict[int, list[tuple[int, int, bytes]]] = {}

    def deliver(self, sender: Sender, datagram: Datagram) -> None:
        """A datagram that `sender`'s socket has received."""
        data, peer = datagram
        if len(data) < REQUEST.size:
            return
        answer_bytes, number = REQUEST.unpack_from(data)
        route = self._routes.get(peer)
        if route is None:
            route = self._routes[peer] = Route(sender)
        route.queue = sender
        if answer_bytes == BULK:
            self._received_bulk(route, number, peer)
            return
        self.answered += 1
        for index, count, payload in self._pieces.get(answer_bytes) or self._cut(answer_bytes):
            piece = PIECE.pack(number, index, count) + payload
            self._find(route).send((piece, peer))

    def _cut(self, answer_bytes: int) -> list[tuple[int, int, bytes]]:
        pieces = pieces_of(min(answer_bytes, _LARGEST_ANSWER_BYTES))
        self._pieces[answer_bytes] = pieces
        return pieces

    def _received_bulk(self, route: Route, number: int, peer: Peer) -> None:
        self.bulk_received += 1
        route.bulk_received += 1
        route.bulk_highest = max(route.bulk_highest, number)
        if route.bulk_received % ACKNOWLEDGE_EVERY == 0:
            acknowledgement = ACKNOWLEDGEMENT.pack(route.bulk_received, route.bulk_highest)
            self._find(route).send((acknowledgement, peer))
