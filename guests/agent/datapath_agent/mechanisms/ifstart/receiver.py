"""The receiving end: takes the stream apart, and tells the sender what it saw of it."""

from __future__ import annotations

import json
import socket
import struct
import time

from datapath_agent.measurement.series import Series
from datapath_agent.mechanism import Harness, mechanism_result
from datapath_agent.mechanisms.ifstart.frames import MAGIC, OPENING, Frames
from datapath_agent.protocol import Fault
from datapath_agent.workload import HIGHER, LOWER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

LAYER = (
    "FreeBSD's queue, lock and taskqueue protocol in processes of user space, with a TCP stream as "
    "the device (by the guests' own NICs, or loopback within one); no hn(4), no VMBus, no FreeBSD"
)
_READ_BYTES = 1 << 20
_LOOK_S = 0.1
_TIMEOUT = struct.pack("@ll", 0, int(_LOOK_S * 1e6))


def serve(run: Run, parameters: dict[str, Any]) -> dict[str, Any]:
    """Take one stream after another until told to stop."""
    total = {"streams": 0, "frames": 0, "bytes": 0, "order_violations": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((parameters["address"], parameters["port"]))
            listener.listen()
        except OSError as error:
            raise Fault(
                "bad-parameter", f"cannot be used: {error}", field="parameters.address"
            ) from None
        listener.settimeout(_LOOK_S)
        address, port = listener.getsockname()
        run.ready(address=address, port=port)
        while not run.stop_reason:
            try:
                stream, _ = listener.accept()
            except (TimeoutError, socket.timeout):  # noqa: UP041 - two classes before 3.10
                continue
            with stream:
                stream.settimeout(None)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT)
                seen = _receive(run, stream)
            total["streams"] += 1
            for name in ("frames", "bytes", "order_violations"):
                total[name] += seen[name]
    return mechanism_result(
        [
            metric("received", "bytes", HIGHER, total["bytes"]),
            metric("order_violations", "frames", LOWER, total["order_violations"]),
        ],
        counters=dict(total),
        fidelity="model",
        layer=LAYER,
        harness=Harness(0.0, 0.0, 0, "measured at the sending end"),
    )


def _receive(run: Run, stream: socket.socket) -> dict[str, Any]:
    """One stream to its end, and the answer to it. A sender that is gone is no failure here."""
    frames = Frames()
    buffer = memoryview(bytearray(_READ_BYTES))
    opening = b""
    series: Series | None = None
    begun_s = last_s = 0.0
    received = 0
    try:
        while not run.stop_reason:
            try:
                if len(opening) < OPENING.size:
                    opening += (more := stream.recv(OPENING.size - len(opening)))
                    if not more:
                        break
                    continue
                count = stream.recv_into(buffer)
            except BlockingIOError:
                continue
            if not count:
                break
            now_s = time.monotonic()
            received += count
            frames.feed(buffer[:count])
            if series is None and frames.measured_from is not None:
                begun_s = now_s
                series = Series(now_s, _bin_s(opening))
            if series:
                series.add(now_s, count)
                last_s = now_s
    except ConnectionError:
        pass
    seen = {"frames": frames.frames, "bytes": received, "order_violations": frames.violations}
    bins = series.whole(last_s - begun_s) if series else []
    try:
        stream.sendall(json.dumps({**seen, "bins": bins}).encode())
    except OSError:
        pass
    return seen


def _bin_s(opening: bytes) -> float:
    magic, bin_ns = OPENING.unpack(opening)
    if magic != MAGIC or not bin_ns:
        raise Fault("bad-request", "the stream is of something else")
    return float(bin_ns / 1e9)
