"""What segments cannot be where an ordinary user's QEMUs are joined by sockets.

QEMU's `dgram` network backend: a frame a datagram, from one socket file to one other. See
"-netdev dgram" in QEMU's invocation manual; net/dgram.c knows neither queues nor offloads.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.topology.derive import nics_on
from lab.topology.model import Topology
from lab.topology.rules import Finding, Host, each_nic

AS_ROOT = "bring it up as root"


def sockets_join_two_nics(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A socket sends to one peer: there is no switch between more, and none to send to alone."""
    if not _over_sockets(host):
        return
    for name in topology.segments:
        # One without any is a slip, whatever the fabric (segment_is_used).
        if (count := len(list(nics_on(topology, name)))) not in (0, 2):
            nics = f"{count} NICs" if count > 1 else "one NIC"
            message = f"segment `{name}` has {nics}, but without root it joins exactly two"
            yield Finding(("segments", name), message, f"two NICs a segment, or {AS_ROOT}")


def sockets_have_no_rate(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """The rate is a queueing discipline (tbf) of a tap, and there is no tap."""
    if not _over_sockets(host):
        return
    for name, segment in topology.segments.items():
        if segment.rate:
            message = f"segment `{name}` has a rate, which only root can give it"
            yield Finding(("segments", name, "rate"), message, f"leave it out, or {AS_ROOT}")


def sockets_have_one_queue(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A virtio NIC has as many queues as its backend; of those, only taps have several."""
    if not _over_sockets(host):
        return
    for loc, name, nic, _ in each_nic(topology):
        if nic.queues > 1:
            message = f"NIC `{name}` has {nic.queues} queues, but without root it has one"
            yield Finding((*loc, "queues"), message, f"leave `queues` out, or {AS_ROOT}")


def _over_sockets(host: Host | None) -> bool:
    return host is not None and host.fabric == "sockets"


RULES = (
    sockets_join_two_nics,
    sockets_have_no_rate,
    sockets_have_one_queue,
)
