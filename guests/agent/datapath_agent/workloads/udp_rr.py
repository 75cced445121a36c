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
_LARGEST_DATAGRAM = 65507
# How often a blocked end looks whether it has to stop.
_LOOK_S = 0.1
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
        while not run.stop_reason:
            try:
                count, peer = endpoint.recvfrom_into(request)
            except BlockingIOError:
                continue
            if count < _REQUEST.size:
                continue
            response_bytes, sequence = _REQUEST.unpack_from(request)
            _SEQUENCE.pack_into(payload, 0, sequence)
            response_bytes = min(max(response_bytes, _SEQUENCE.size), _LARGEST_DATAGRAM)
            endpoint.sendto(memoryview(payload)[:response_bytes], peer)
            answered += 1
    return result([metric("answered", "requests", HIGHER, answered)])


def _connect(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    samples_us: list[int] = []
    lost = 0
    request = bytearray(parameters["request_bytes"])
    with _socket() as endpoint:
        try:
            endpoint.connect((parameters["address"], parameters["port"]))
        except OSError as error:
            raise _unusable(error) from None
        start_s = time.monotonic()
        end_s = start_s + parameters["runtime_s"]
        next_progress_s = start_s + _PROGRESS_S
        sequence = 0
        while (now_s := time.monotonic()) < end_s and not run.stop_reason:
            sequence += 1
            _REQUEST.pack_into(request, 0, parameters["response_bytes"], sequence)
            latency_us = _exchange(run, endpoint, request, sequence)
            if latency_us is None:
                lost += 1
            else:
                samples_us.append(latency_us)
            if now_s >= next_progress_s:
                run.progress(f"{len(samples_us)} requests answered, {lost} lost")
                next_progress_s = now_s + _PROGRESS_S
        runtime_ms = max(1, int((time.monotonic() - start_s) * 1000))
    if not samples_us:
        raise Fault(
            "no-answer",
            f"no answer from {parameters['address']}:{parameters['port']} to {lost} requests",
        )
    return result(
        [
            metric("rps", "1/s", HIGHER, len(samples_us) * 1000 // runtime_ms),
            *latency_metrics(samples_us),
            metric("lost", "requests", LOWER, lost),
        ],
        samples={"latency_us": samples_us},
    )


def _exchange(run: Run, endpoint: socket.socket, request: bytearray, sequence: int) -> int | None:
    """Microseconds from sending to having the answer; None if none came."""
    start_us = time.monotonic_ns() // 1000
    try:
        endpoint.send(request)
        while True:
            try:
                answer = endpoint.recv(_LARGEST_DATAGRAM)
            except BlockingIOError:
                waited_us = time.monotonic_ns() // 1000 - start_us
                if run.stop_reason or waited_us >= _LOST_AFTER_S * 1e6:
                    return None
                continue
            end_us = time.monotonic_ns() // 1000
            if len(answer) >= _SEQUENCE.size and _SEQUENCE.unpack_from(answer)[0] == sequence:
                return end_us - start_us
    except ConnectionRefusedError as error:
        raise Fault("no-answer", f"nothing listens there: {error.strerror}") from None


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
