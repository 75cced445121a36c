"""One UDP socket as a worker sees it: how it sends, and how its receives complete.

A datagram is `bytes` on a client's connected socket, `(bytes, peer)` on a server's.
"""

from __future__ import annotations

from datapath_agent.mechanisms.udp.events import ring
from datapath_agent.mechanisms.udp.wire import DATAGRAM_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.mechanisms.udp.events import EventQueue
    from datapath_agent.mechanisms.udp.ring import Ring

    Datagram = Any
    # What the protocol is given a datagram with: where to send an answer.
    Deliver = Callable[["Sender", Datagram], None]

COUNTERS = (
    "sends_inline", "sends_queued", "sends_dropped", "recv_woken", "recv_inline", "recv_posted",
    "ring_full",
)  # fmt: skip


class Counts:
    """What one process did, by the names in COUNTERS."""

    def __init__(self) -> None:
        self.sends_inline = 0
        self.sends_queued = 0
        self.sends_dropped = 0  # the socket's buffer was full
        self.recv_woken = 0  # receives that epoll reported
        self.recv_inline = 0  # further ones, handled at once
        self.recv_posted = 0  # further ones, posted to the loop
        self.ring_full = 0  # datagrams dropped between two processes

    def as_dict(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in COUNTERS}


class Sender:
    """The sending side of a socket, number `index` of its end; `cpu` is its worker's."""

    def __init__(
        self, endpoint: socket.socket, counts: Counts, *, index: int, cpu: int, is_server: bool
    ) -> None:
        self.index = index
        self.cpu = cpu
        self._counts = counts
        self._transmit: Callable[[Datagram], object] = (
            (lambda datagram: endpoint.sendto(*datagram)) if is_server else endpoint.send
        )
        self.send: Callable[[Datagram], None] = self._send_inline

    def transmit(self, datagram: Datagram) -> None:
        """The send itself. UDP may lose what does not fit, and the receiver will miss it."""
        try:
            self._transmit(datagram)
        except BlockingIOError:
            self._counts.sends_dropped += 1

    def _send_inline(self, datagram: Datagram) -> None:
        self._counts.sends_inline += 1
        self.transmit(datagram)

    def post_to(self, events: EventQueue) -> None:
        """From now on, post every send to the worker's own loop."""

        def send(datagram: Datagram) -> None:
            self._counts.sends_queued += 1
            events.post(self.transmit, datagram)

        self.send = send

    def hand_to(self, outgoing: Ring, doorbell_fd: int) -> None:
        """From now on, hand every send to another process, which transmits it."""

        def send(datagram: Datagram) -> None:
            self._counts.sends_queued += 1
            if outgoing.put(self.index, datagram):
                ring(doorbell_fd)
            else:
                self._counts.ring_full += 1

        self.send = send


class Receiver:
    """The receiving side of a socket.

    epoll's report stands for the completion of a pending receive. Each further receive that
    succeeds at once is handled here, up to `inline_max` of them; the next is posted to the
    loop, and no other is taken before it has run.
    """

    def __init__(
        self,
        endpoint: socket.socket,
        sender: Sender,
        events: EventQueue,
        counts: Counts,
        deliver: Deliver,
        *,
        inline_max: int,
        is_server: bool,
    ) -> None:
        self._receive: Callable[[int], Datagram] = endpoint.recvfrom if is_server else endpoint.recv
        self._sender = sender
        self._events = events
        self._counts = counts
        self._deliver = deliver
        self._inline_max = inline_max
        self._is_posted = False
        events.watch(endpoint.fileno(), self._readable)

    def _readable(self) -> None:
        if self._is_posted:
            return  # that one's handler goes on until nothing is left
        try:
            datagram = self._receive(DATAGRAM_BYTES)
        except BlockingIOError:
            return  # taken by the turn before
        self._counts.recv_woken += 1
        self._completed(datagram)

    def _completed(self, datagram: Datagram) -> None:
        """Handle a received datagram, and receive again."""
        self._is_posted = False
        inline_left = self._inline_max
        while True:
            self._deliver(self._sender, datagram)
            try:
                datagram = self._receive(DATAGRAM_BYTES)
            except BlockingIOError:
                return
            if not inline_left:
                break
            inline_left -= 1
            self._counts.recv_inline += 1
        self._counts.recv_posted += 1
        self._is_posted = True
        self._events.post(self._completed, datagram)
