"""What the mechanism's own code costs: both protocols in one process, joined by a deque."""

from __future__ import annotations

from collections import deque

from datapath_agent.mechanisms.udp.answers import Answers
from datapath_agent.mechanisms.udp.requests import Requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.mechanisms.udp.lanes import Datagram, Sender

WHAT = "both ends' protocol a request, without sockets, epoll and eventfd"
_BATCH = 16


class _Wire:
    """Stands for a sender of either end."""

    cpu = 0

    def __init__(self, index: int, queue: deque[tuple[int, Datagram]]) -> None:
        self.index = index
        self._queue = queue

    def send(self, datagram: Datagram) -> None:
        self._queue.append((self.index, datagram))


def null_requests(policy: dict[str, Any], parameters: dict[str, Any], runtime_s: float) -> Requests:
    """A whole run of the closed loop in this process."""
    requests: deque[tuple[int, bytes]] = deque()
    answers: deque[tuple[int, tuple[bytes, tuple[str, int]]]] = deque()
    back: Any = _Wire(0, answers)
    server = Answers([back], policy["route"])
    senders: list[Sender] = []
    for index in range(parameters["connections"]):
        wire: Any = _Wire(index, requests)
        senders.append(wire)
    client = Requests(
        senders,
        answer_bytes=parameters["response_bytes"],
        request_bytes=parameters["request_bytes"],
        in_flight=parameters["in_flight"],
    )

    def turn(_timeout_s: float) -> bool:
        for _ in range(min(_BATCH, len(requests))):
            index, request = requests.popleft()
            server.deliver(back, (request, ("127.0.0.1", index + 1)))
        for _ in range(len(answers)):
            _, (piece, peer) = answers.popleft()
            client.deliver(senders[peer[1] - 1], piece)
        return True

    client.load(turn, lambda: False, runtime_s)
    return client


def null_cost(policy: dict[str, Any], parameters: dict[str, Any]) -> tuple[int, float]:
    """(requests, seconds) of a null run."""
    client = null_requests(policy, parameters, parameters["null_s"])
    return len(client.samples_us), (client.end_us - client.start_us) / 1e6
