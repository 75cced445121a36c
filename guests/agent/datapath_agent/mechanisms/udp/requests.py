"""The client's protocol: requests in a closed loop, every latency kept."""

from __future__ import annotations

import time
from collections import deque

from datapath_agent.mechanisms.udp.wire import PIECE, REQUEST, pieces_of
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.mechanisms.udp.lanes import Datagram, Sender

LOST_AFTER_US = 1_000_000
# The server is gone once nothing has come for so long; idle peers do not exist in a closed loop.
PEER_GONE_US = 3_000_000
_OPEN_TRIES = 3
_LOOK_S = 0.1
_LOOK_US = 100_000


def now_us() -> int:
    return time.monotonic_ns() // 1000


class Requests:
    """A worker of the client: a connection has at most one request in flight."""

    def __init__(
        self, senders: list[Sender], *, answer_bytes: int, request_bytes: int, in_flight: int
    ) -> None:
        self.samples_us: list[int] = []
        self.lost = 0
        self.late = 0
        self.start_us = self.end_us = 0
        self._senders = senders
        self._answer_bytes = answer_bytes
        self._every_piece = (1 << len(pieces_of(answer_bytes))) - 1
        self._padding = bytes(request_bytes - REQUEST.size)
        self._in_flight = in_flight
        self._number = 0
        self._idle = deque(senders)
        # By number: when it was sent, the bits of the pieces that are missing, and on what.
        self._pending: dict[int, list[Any]] = {}
        self._is_loading = False
        self._now_us = self._heard_us = 0

    def open(self, turn: Callable[[float], bool], should_stop: Callable[[], bool]) -> None:
        """Exchange one request on every connection. Raises Fault if one stays unanswered."""
        silent = list(self._senders)
        for _ in range(_OPEN_TRIES):
            for sender in silent:
                self._ask(sender, 0, 1)
            give_up_us = now_us() + LOST_AFTER_US
            try:
                while self._pending and now_us() < give_up_us and not should_stop():
                    turn(_LOOK_S)
            except ConnectionRefusedError as error:
                raise Fault("no-answer", f"nothing listens there: {error.strerror}") from None
            silent = [sender for _, _, sender in self._pending.values()]
            self._pending.clear()
            if not silent or should_stop():
                self._idle = deque(self._senders)
                return
        raise Fault(
            "no-answer", f"{len(silent)} of {len(self._senders)} connections have no answer"
        )

    def load(
        self, turn: Callable[[float], bool], should_stop: Callable[[], bool], runtime_s: float
    ) -> None:
        """Keep requests in flight for `runtime_s`. Raises Fault when the server is gone."""
        self._is_loading = True
        self._now_us = self._heard_us = self.start_us = self.end_us = now_us()
        end_us = self.start_us + int(runtime_s * 1e6)
        look_us = self.start_us + _LOOK_US
        try:
            for _ in range(self._in_flight):
                self._ask(self._idle.popleft(), self._answer_bytes, self._every_piece)
            while self._now_us < end_us and not should_stop():
                if not turn(_LOOK_S):
                    self._now_us = now_us()
                if self._now_us >= look_us:
                    self._look()
                    look_us = self._now_us + _LOOK_US
        except ConnectionRefusedError as error:
            raise Fault("peer-gone", f"the server is gone: {error.strerror}") from None
        finally:
            self.end_us = now_us()

    def deliver(self, _sender: Sender, data: Datagram) -> None:
        """A datagram from the server."""
        number, index, _count = PIECE.unpack_from(data)
        waiting = self._pending.get(number)
        if waiting is None:
            self.late += 1
            return
        waiting[1] &= ~(1 << index)
        if waiting[1]:
            return
        self._heard_us = self._now_us = end_us = now_us()
        del self._pending[number]
        if self._is_loading:
            self.samples_us.append(end_us - waiting[0])
            self._idle.append(waiting[2])
            self._ask(self._idle.popleft(), self._answer_bytes, self._every_piece)

    def _ask(self, sender: Sender, answer_bytes: int, pieces: int) -> None:
        start_us = now_us()
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        self._pending[number] = [start_us, pieces, sender]
        sender.send(REQUEST.pack(answer_bytes, number) + self._padding)

    def _look(self) -> None:
        """Give up requests that were lost, and ask anew; oldest first."""
        if self._now_us - self._heard_us >= PEER_GONE_US:
            raise Fault("peer-gone", f"no answer for {PEER_GONE_US // 1_000_000} s")
        for number, (start_us, _, sender) in list(self._pending.items()):
            if self._now_us - start_us < LOST_AFTER_US:
                break
            del self._pending[number]
            self.lost += 1
            self._idle.append(sender)
            self._ask(self._idle.popleft(), self._answer_bytes, self._every_piece)
