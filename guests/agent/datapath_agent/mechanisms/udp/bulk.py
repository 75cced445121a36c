"""The client's other protocol: bulk one way, each connection within a window of datagrams."""

from __future__ import annotations

from datapath_agent.mechanisms.udp.requests import PEER_GONE_US, Requests, now_us
from datapath_agent.mechanisms.udp.wire import ACKNOWLEDGEMENT, BULK, DATAGRAM_BYTES, REQUEST
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from datapath_agent.mechanisms.udp.lanes import Datagram, Sender

# In flight on a connection; several acknowledgements' worth, and less than a socket buffers.
WINDOW = 32
_STALL_US = 200_000
_LOOK_S = 0.05


class _Flow:
    """A connection: numbers of the last datagram sent and of the highest acknowledged."""

    def __init__(self) -> None:
        self.sent = 0
        self.highest = 0
        self.received = 0
        self.heard_us = 0


class Bulk(Requests):
    """A worker of the client; connections open as those with requests do."""

    def __init__(self, senders: list[Sender]) -> None:
        super().__init__(senders, answer_bytes=0, request_bytes=REQUEST.size, in_flight=0)
        self._flows = [_Flow() for _ in senders]
        self._filling = bytes(DATAGRAM_BYTES - REQUEST.size)

    @property
    def delivered(self) -> int:
        """Datagrams that the server has acknowledged."""
        return sum(flow.received for flow in self._flows)

    def load(
        self, turn: Callable[[float], bool], should_stop: Callable[[], bool], runtime_s: float
    ) -> None:
        self._is_loading = True
        self.start_us = self._now_us = self.end_us = now_us()
        end_us = self.start_us + int(runtime_s * 1e6)
        look_us = self.start_us + _STALL_US
        for flow in self._flows:
            flow.heard_us = self.start_us
        try:
            for sender in self._senders:
                self._fill(sender)
            while self._now_us < end_us and not should_stop():
                turn(_LOOK_S)
                self._now_us = now_us()
                if self._now_us >= look_us:
                    self._look()
                    look_us = self._now_us + _STALL_US
        except ConnectionRefusedError as error:
            raise Fault("peer-gone", f"the server is gone: {error.strerror}") from None
        finally:
            self.end_us = now_us()
            self.lost = sum(flow.highest - flow.received for flow in self._flows)

    def deliver(self, sender: Sender, data: Datagram) -> None:
        if not self._is_loading:
            super().deliver(sender, data)
            return
        flow = self._flows[sender.index]
        received, highest = ACKNOWLEDGEMENT.unpack_from(data)
        flow.received = max(flow.received, received)
        flow.highest = max(flow.highest, highest)
        flow.heard_us = self._now_us
        self._fill(sender)

    def _fill(self, sender: Sender) -> None:
        flow = self._flows[sender.index]
        while flow.sent - flow.highest < WINDOW:
            flow.sent += 1
            sender.send(REQUEST.pack(BULK, flow.sent) + self._filling)

    def _look(self) -> None:
        """Whatever is not acknowledged after a stall is lost; send on."""
        if all(self._now_us - flow.heard_us >= PEER_GONE_US for flow in self._flows):
            raise Fault("peer-gone", f"nothing acknowledged for {PEER_GONE_US // 1_000_000} s")
        for sender, flow in zip(self._senders, self._flows):
            if self._now_us - flow.heard_us >= _STALL_US:
                flow.highest = flow.sent
                self._fill(sender)
