"""The datapath of msquic's pull request 3283: run sends and receives at once, or queue them.

An event loop a worker over real UDP sockets; epoll, a deque and an eventfd stand in for the
completion port. Only the axes that the change touched are policies.
"""

from __future__ import annotations

from datapath_agent.mechanism import NULL_S, Mechanism
from datapath_agent.parameters import (
    PORT_OF_PEER,
    PORT_TO_SERVE,
    REQUIRED,
    RUNTIME_S,
    Parameter,
)
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

SEND = Parameter(
    "send",
    str,
    "inline",
    "send in the caller, or post it to the own loop, or to the datapath's process",
    choices=("inline", "queue_self", "queue_datapath"),
)
RECV = Parameter(
    "recv",
    str,
    "inline",
    "take what has arrived at once, or post every datagram after the first to the loop",
    choices=("inline", "queue"),
)
ROUTE = Parameter(
    "route",
    str,
    "route_queue",
    "send on the worker that last received from the peer, on the one found by the connection's "
    "ideal CPU, or on the first",
    choices=("route_queue", "ideal_lookup", "proc0"),
)
PROFILE = Parameter(
    "profile",
    str,
    "lowlat",
    "protocol and datapath in one process, in two, or in one of real-time priority (ours)",
    choices=("lowlat", "maxtput", "realtime"),
)

WORKERS = Parameter("workers", int, 1, "event loops at each end, one CPU each", 1, 16)
INLINE_MAX = Parameter("inline_max", int, 10, "datagrams that recv=inline takes at once", 1, 1000)
PIN = Parameter("pin", bool, True, "bind every process to its CPU")


def check(policy: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Refuse what cannot show the mechanism; how many CPUs there are is seen when it runs."""

    def refuse(field: str, reason: str) -> None:
        raise Fault("inexpressible", reason, field=f"parameters.{field}")

    is_split = policy["profile"] == "maxtput"
    workers = parameters["workers"]
    if policy["send"] == "queue_datapath" and not is_split:
        refuse("send", "only profile=maxtput has a datapath in a process of its own to queue for")
    if policy["send"] == "queue_self" and is_split:
        refuse("send", "under profile=maxtput the sender has no socket loop of its own")
    if policy["route"] == "proc0" and workers < 2:
        refuse("route", "with one worker every route leads to the first")
    if policy["profile"] == "realtime" and not parameters["pin"]:
        refuse("pin", "profile=realtime is bound to its CPUs")
    if "connections" not in parameters:
        return  # the server's end
    if parameters["connections"] < workers:
        refuse("connections", f"{workers} workers need a connection each")
    if not workers <= parameters["in_flight"] <= parameters["connections"]:
        refuse("in_flight", "every worker has a request in flight, a connection at most one")


def _run(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.mechanisms.udp.client_end import measure

    return measure(run, policy, parameters)


def _serve(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.mechanisms.udp.server_end import serve

    check(policy, parameters)
    return serve(run, policy, parameters)


MECHANISM = Mechanism(
    "UDP event loops: sends and receive completions inline or queued",
    "microsoft/msquic #3283",
    (SEND, RECV, ROUTE, PROFILE),
    (
        Parameter("address", str, REQUIRED, "address of the server"),
        PORT_OF_PEER,
        Parameter(
            "mode",
            str,
            "rps",
            "requests in a closed loop, or bulk one way in a window of datagrams",
            choices=("rps", "bulk"),
        ),
        Parameter(
            "op",
            str,
            "real",
            "null: both ends' protocol code in one process, without sockets and loops",
            choices=("real", "null"),
        ),
        Parameter("connections", int, 1, "sockets of the client", 1, 1000),
        Parameter("in_flight", int, 1, "requests in flight, over all connections", 1, 1000),
        Parameter("request_bytes", int, 8, "bytes a request", 8, 1472),
        Parameter("response_bytes", int, 4096, "payload bytes an answer", 0, 65536),
        RUNTIME_S,
        Parameter("idle_s", float, 2.0, "seconds between connecting and load", 0, 60),
        WORKERS,
        INLINE_MAX,
        PIN,
        NULL_S,
    ),
    {
        "main": {"send": "queue_self", "recv": "queue", "route": "ideal_lookup"},
        "latest": {"send": "inline", "recv": "inline", "route": "route_queue"},
    },
    check,
    _run,
    _serve,
    (
        Parameter("address", str, REQUIRED, "the guest's own address to listen on"),
        PORT_TO_SERVE,
        WORKERS,
        INLINE_MAX,
        PIN,
    ),
)
