"""UDP request and response in a closed loop: one request in flight, every latency kept.

A request starts with two 32-bit numbers, how many bytes to answer and its sequence number; an
answer starts with the sequence number, so one that was given up is not taken for the next.
"""

from __future__ import annotations

import socket
import struct
import time

from datapath_agent.measurement.percentiles import latency_metrics
from datapath_agent.parameters import (
    PORT_OF_PEER,
    PORT_TO_SERVE,
    REQUIRED,
    RUNTIME_S,
    Parameter,
)
from datapath_agent.protocol import Fault
from datapath_agent.workload import HIGHER, LOWER, Workload, metric, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

_REQUEST = struct.Struct("!II")
_SEQUENCE = struct.Struct("!I")
_SEQUENCE_OFFSET = 4  # in a request
_LARGEST_SEQUENCE = 0xFFFFFFFF
_LARGEST_DATAGRAM = 65507
# How often a blocked end looks whether it has to stop.
_LOOK_S = 0.1
# The server looks only now and then; at the slowest pace without a pause (10 a second) this is
# within 1 s.
_SERVED_BETWEEN_LOOKS = 8
_LOST_AFTER_S = 1.0
_PROGRESS_S = 1.0


def _socket() -> socket.socket:
    """A blocking socket whose receives end with BlockingIOError: no poll() a datagram."""
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    timeout = struct.pack("@ll", 0, int(_LOOK_S * 1e6))
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
    return endpoint


def _serve(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    answered = 0
    payload = bytearray(_LARGEST_DATAGRAM)
    with _socket() as endpoint:
        try:
            endpoint.bind((parameters["address"], parameters["port"]))
        except OSError as error:
            raise _unusable(error) from None
        address, port = endpoint.getsockname()
        run.ready(address=address, port=port)
        request = bytearray(_LARGEST_DATAGRAM)
        # What the loop would otherwise look up for every datagram.
        receive, send = endpoint.recvfrom_into, endpoint.sendto
        unpack, pack = _REQUEST.unpack_from, _SEQUENCE.pack_into
        answers: dict[int, memoryview] = {}
        while not run.stop_reason:
            try:
                for _ in range(_SERVED_BETWEEN_LOOKS):
                    count, peer = receive(request)
                    if count < _REQUEST.size:
                        continue
                    answer_bytes, sequence = unpack(request)
                    answer = answers.get(answer_bytes)
                    if answer is None:
                        size = min(max(answer_bytes, _SEQUENCE.size), _LARGEST_DATAGRAM)
                        answer = answers[answer_bytes] = memoryview(payload)[:size]
                    pack(payload, 0, sequence)
                    send(answer, peer)
                    answered += 1
            except BlockingIOError:
                continue
    return result([metric("answered", "requests", HIGHER, answered)])


def _connect(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    with _socket() as endpoint:
        try:
            endpoint.connect((parameters["address"], parameters["port"]))
        except OSError as error:
            raise _unusable(error) from None
        loop = _Loop(run, endpoint, parameters)
        loop.go_on(parameters["runtime_s"])
    if not loop.samples_ns:
        raise Fault(
            "no-answer",
            f"no answer from {parameters['address']}:{parameters['port']} to {loop.lost} requests",
        )
    samples_us = [sample_ns // 1000 for sample_ns in loop.samples_ns]
    return result(
        [
            metric("rps", "1/s", HIGHER, len(samples_us) * 1000 // max(1, int(loop.run_s * 1000))),
            *latency_metrics(samples_us),
            metric("lost", "requests", LOWER, loop.lost),
        ],
        samples={"latency_us": samples_us},
    )


class _Loop:
    """The client's closed loop, and what it saw."""

    def __init__(self, run: Run, endpoint: socket.socket, parameters: dict[str, Any]) -> None:
        self.samples_ns: list[int] = []
        self.lost = 0
        self.run_s = 0.0
        self._run = run
        self._endpoint = endpoint
        self._request = bytearray(parameters["request_bytes"])
        _REQUEST.pack_into(self._request, 0, parameters["response_bytes"], 0)
        self._answer = bytearray(_LARGEST_DATAGRAM)
        self._sequence = 0

    def go_on(self, runtime_s: float) -> None:
        """Until the time is up, with a look at everything but the next request now and then."""
        start_ns = now_ns = time.monotonic_ns()
        end_ns = start_ns + int(runtime_s * 1e9)
        progress_ns = start_ns
        try:
            while now_ns < end_ns and not self._run.stop_reason:
                now_ns = self._exchange_until(min(end_ns, now_ns + int(_LOOK_S * 1e9)))
                if now_ns - progress_ns >= _PROGRESS_S * 1e9:
                    self._run.progress(f"{len(self.samples_ns)} answered, {self.lost} lost")
                    progress_ns = now_ns
        except ConnectionRefusedError as error:
            raise Fault("no-answer", f"nothing listens there: {error.strerror}") from None
        self.run_s = (time.monotonic_ns() - start_ns) / 1e9

    def _exchange_until(self, end_ns: int) -> int:
        """Request after request until `end_ns`, or one is lost; the time then.

        This loop is what is measured: per request two system calls and two looks at the clock,
        and nothing is looked up that can be known before.
        """
        send, receive, clock = self._endpoint.send, self._endpoint.recv_into, time.monotonic_ns
        pack, unpack, keep = _SEQUENCE.pack_into, _SEQUENCE.unpack_from, self.samples_ns.append
        request, sequence = self._request, self._sequence
        answer = self._answer
        now_ns = 0
        while now_ns < end_ns:
            sequence = (sequence + 1) & _LARGEST_SEQUENCE
            pack(request, _SEQUENCE_OFFSET, sequence)
            start_ns = clock()
            send(request)
            try:
                count = receive(answer)
                now_ns = clock()
                # A short or older answer is that of a request which was given up.
                if count >= _SEQUENCE.size and unpack(answer)[0] == sequence:
                    keep(now_ns - start_ns)
                    continue
            except BlockingIOError:
                pass
            now_ns = self._wait_on(sequence, start_ns)
            break
        self._sequence = sequence
        return now_ns

    def _wait_on(self, sequence: int, start_ns: int) -> int:
        """Keep or give up a request whose answer was not what came first; the time then."""
        while True:
            try:
                answer = self._endpoint.recv(_LARGEST_DATAGRAM)
            except BlockingIOError:
                answer = b""
            now_ns = time.monotonic_ns()
            if len(answer) >= _SEQUENCE.size and _SEQUENCE.unpack_from(answer)[0] == sequence:
                self.samples_ns.append(now_ns - start_ns)
                return now_ns
            if self._run.stop_reason or now_ns - start_ns >= _LOST_AFTER_S * 1e9:
                self.lost += 1
                return now_ns


def _unusable(error: OSError) -> Fault:
    return Fault("bad-parameter", f"cannot be used: {error}", field="parameters.address")


SERVER = Workload(
    "answers UDP requests until stopped",
    (Parameter("address", str, REQUIRED, "the guest's own address to listen on"), PORT_TO_SERVE),
    _serve,
)
CLIENT = Workload(
    "UDP request and response in a closed loop",
    (
        Parameter("address", str, REQUIRED, "address of the server"),
        PORT_OF_PEER,
        RUNTIME_S,
        Parameter("request_bytes", int, 8, "bytes a request", _REQUEST.size, _LARGEST_DATAGRAM),
        Parameter("response_bytes", int, 4096, "bytes an answer", 0, _LARGEST_DATAGRAM),
    ),
    _connect,
)
