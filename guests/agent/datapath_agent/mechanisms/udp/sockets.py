"""The sockets of both ends, made before their workers are forked."""

from __future__ import annotations

import socket

from datapath_agent.mechanisms.udp.placement import shard
from datapath_agent.protocol import Fault

_SO_RCVBUFFORCE = 33
# msquic asks for as much as there is; this holds more than any window here.
_BUFFER_BYTES = 4 << 20


def _endpoint() -> socket.socket:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.setblocking(False)
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    return endpoint


def connected(address: str, port: int, count: int) -> list[socket.socket]:
    """A socket for each connection. Raises Fault for an address that cannot be used."""
    endpoints = []
    try:
        for _ in range(count):
            endpoint = _endpoint()
            endpoints.append(endpoint)
            endpoint.connect((address, port))
    except OSError as error:
        raise _unusable(error) from None
    return endpoints


def listening(address: str, port: int, workers: int) -> list[socket.socket]:
    """A socket for each worker, all on one port. Raises Fault as `connected` does."""
    endpoints: list[socket.socket] = []
    try:
        for _ in range(workers):
            endpoint = _endpoint()
            endpoints.append(endpoint)
            if workers > 1:
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            endpoint.bind((address, port))
            port = endpoint.getsockname()[1]
        if workers > 1:
            shard(endpoints[0], workers)
    except OSError as error:
        raise _unusable(error) from None
    return endpoints


def _unusable(error: OSError) -> Fault:
    return Fault("bad-parameter", f"cannot be used: {error}", field="parameters.address")
