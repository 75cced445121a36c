"""The rules of lab.topology.lint: one function each, with the source of the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, Protocol

from lab.topology.model import Disk, Guest, Nic, Rdma, Topology
from lab.topology.problem import Loc


class Host(Protocol):
    """What the rules need to know of the probed host (a lab.host.capabilities.Capabilities)."""

    @property
    def accelerator(self) -> Literal["kvm", "tcg"]: ...
    @property
    def io_uring(self) -> bool: ...
    @property
    def fabric(self) -> Literal["namespace", "sockets"]: ...


class Finding(NamedTuple):
    """A field that cannot work, why, and what would."""

    loc: Loc
    message: str
    hint: str | None = None


Rule = Callable[[Topology, Host | None], Iterator[Finding]]


def each_guest(topology: Topology) -> Iterator[tuple[Loc, str, Guest]]:
    """Place, name and model of each guest; the others below likewise, with their guest."""
    for name, guest in topology.guests.items():
        yield ("guests", name), name, guest


def each_disk(topology: Topology) -> Iterator[tuple[Loc, str, Disk, Guest]]:
    for loc, _, guest in each_guest(topology):
        for name, disk in guest.disks.items():
            yield (*loc, "disks", name), name, disk, guest


def each_nic(topology: Topology) -> Iterator[tuple[Loc, str, Nic, Guest]]:
    for loc, _, guest in each_guest(topology):
        for name, nic in guest.nics.items():
            yield (*loc, "nics", name), name, nic, guest


def each_rdma(topology: Topology) -> Iterator[tuple[Loc, str, Rdma, Guest]]:
    for loc, _, guest in each_guest(topology):
        for name, rdma in guest.rdma.items():
            yield (*loc, "rdma", name), name, rdma, guest
