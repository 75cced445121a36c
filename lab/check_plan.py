"""What `lab check` measures: it follows from the topology alone. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Address
from typing import Protocol

from lab.deadline import Deadline
from lab.errors import LabError
from lab.guest.agent_client import AgentClient, Fidelity, Result
from lab.guest.workloads import (
    Fio,
    Iperf3Client,
    Iperf3Server,
    PerftestClient,
    PerftestServer,
    PerftestTest,
    SockperfClient,
    SockperfServer,
    Workload,
)
from lab.topology.model import Nic, Topology

MIB = 1 << 20
# Counted, not timed: a soft-RoCE link that loses packets may complete nothing in a short time.
RDMA_BANDWIDTH_ITERATIONS = 500
RDMA_LATENCY_ITERATIONS = 1000


@dataclass(frozen=True)
class Profile:
    """How much to measure: seconds of each run, and runs of each measurement."""

    runtime_s: float = 2.0
    runs: int = 1


class CheckedGuest(Protocol):
    """What a check needs of a running guest."""

    @property
    def addresses(self) -> Mapping[str, IPv4Address]: ...
    def agent(self) -> AbstractContextManager[AgentClient]: ...
    def settle(self, deadline: Deadline) -> None:
        """Return once the guest has nothing of its own boot left to do."""


class CheckedLab(Protocol):
    """What a check needs of a lab that is up."""

    @property
    def topology(self) -> Topology: ...
    @property
    def accelerator(self) -> str: ...
    @property
    def guests(self) -> Mapping[str, CheckedGuest]: ...


@dataclass(frozen=True)
class Check:
    """One measurement to make: its row's words, and how to make it once."""

    what: str
    guests: tuple[str, ...]
    place: str
    metric: str
    fidelity: Fidelity
    measure: Callable[[Agents, Deadline], Result]


@dataclass
class Agents:
    """One conversation a guest, opened when first needed. A guest that is lost stays lost."""

    lab: CheckedLab
    stack: ExitStack
    _open: dict[str, AgentClient] = field(default_factory=dict)
    _lost: dict[str, LabError] = field(default_factory=dict)

    def __getitem__(self, guest: str) -> AgentClient:
        if guest in self._lost:
            raise self._lost[guest]
        if guest not in self._open:
            try:
                self._open[guest] = self.stack.enter_context(self.lab.guests[guest].agent())
            except LabError as error:
                self._lost[guest] = error
                raise
        return self._open[guest]

    def lose(self, guests: tuple[str, ...], error: LabError) -> None:
        """`error` came from the guest that it names, else from any of `guests`."""
        named = [guest for guest in guests if error.where and f"guest {guest}" in error.where]
        self._lost.update(dict.fromkeys(named or guests, error))


def plan_checks(lab: CheckedLab, profile: Profile) -> list[Check]:
    """Every measurement that the lab's topology calls for, in the order of the report."""
    return [
        *_storage(lab.topology, profile),
        *_network(lab, profile),
        *_rdma(lab, profile),
    ]


def _storage(topology: Topology, profile: Profile) -> Iterator[Check]:
    for guest, spec in topology.guests.items():
        for disk in spec.disks:
            # Writes come first: reading what a new disk never held measures the host's zeros.
            for pattern, block_bytes, iodepth, metric, words in (
                ("write", MIB, 8, "write_throughput", "write 1 MiB"),
                ("read", MIB, 8, "read_throughput", "read 1 MiB"),
                ("randwrite", 4096, 32, "write_iops", "write 4 KiB random"),
                ("randread", 4096, 32, "read_iops", "read 4 KiB random"),
            ):
                workload = Fio(
                    disk=disk,
                    pattern=pattern,  # type: ignore[arg-type]
                    block_bytes=block_bytes,
                    iodepth=iodepth,
                    runtime_s=profile.runtime_s,
                )
                yield Check(
                    words,
                    (guest,),
                    f"{guest} {disk}",
                    metric,
                    "native",
                    _alone(guest, workload),
                )


def _alone(guest: str, workload: Workload) -> Callable[[Agents, Deadline], Result]:
    return lambda agents, deadline: agents[guest].run(workload, deadline=deadline)


@dataclass(frozen=True)
class _Link:
    """Two devices of different guests on one segment, in one direction."""

    source: str
    source_nic: str
    sink: str
    sink_nic: str
    fidelity: Fidelity

    def reversed(self) -> _Link:
        return _Link(self.sink, self.sink_nic, self.source, self.source_nic, self.fidelity)

    def check(
        self, what: str, metric: str, server: Workload, client: Callable[..., Workload]
    ) -> Check:
        """`server` runs at the sink, and `client`, given its port, at the source."""

        def measure(agents: Agents, deadline: Deadline) -> Result:
            with agents[self.sink].start(server, deadline=deadline) as listening:
                return agents[self.source].run(client(port=listening.port), deadline=deadline)

        return Check(
            what=what,
            guests=(self.source, self.sink),
            place=f"{self.source} -> {self.sink} {self.sink_nic}",
            metric=metric,
            fidelity=self.fidelity,
            measure=measure,
        )


def _links(topology: Topology) -> Iterator[_Link]:
    nics: list[tuple[str, str, Nic]] = [
        (guest, name, nic)
        for guest, spec in topology.guests.items()
        for name, nic in spec.nics.items()
    ]
    for (source, source_nic, one), (sink, sink_nic, other) in itertools.combinations(nics, 2):
        if one.segment == other.segment and source != sink:
            native = one.model == other.model == "virtio"
            yield _Link(source, source_nic, sink, sink_nic, "native" if native else "emulated")


def _network(lab: CheckedLab, profile: Profile) -> Iterator[Check]:
    for link in _links(lab.topology):
        for way in (link, link.reversed()):
            address = str(lab.guests[way.sink].addresses[way.sink_nic])
            yield way.check(
                "TCP, one connection",
                "throughput",
                Iperf3Server(address=address),
                partial(Iperf3Client, address=address, runtime_s=profile.runtime_s),
            )
        address = str(lab.guests[link.sink].addresses[link.sink_nic])
        yield link.check(
            "UDP round trip, p50",
            "rtt_p50",
            SockperfServer(address=address),
            partial(SockperfClient, address=address, runtime_s=profile.runtime_s),
        )


def _rdma(lab: CheckedLab, profile: Profile) -> Iterator[Check]:
    for link in _links(lab.topology):
        source = _rdma_device(lab.topology, link.source, link.source_nic)
        sink = _rdma_device(lab.topology, link.sink, link.sink_nic)
        if source is None or sink is None:
            continue
        source_address = str(lab.guests[link.source].addresses[link.source_nic])
        sink_address = str(lab.guests[link.sink].addresses[link.sink_nic])
        over_rdma = replace(link, source_nic=source, sink_nic=sink, fidelity="emulated")
        tests: tuple[tuple[PerftestTest, str, str, int, int], ...] = (
            ("ib_write_bw", "RDMA write 64 KiB", "bandwidth", 65536, RDMA_BANDWIDTH_ITERATIONS),
            ("ib_write_lat", "RDMA write latency, p50", "latency_p50", 2, RDMA_LATENCY_ITERATIONS),
        )
        for test, what, metric, message_bytes, iterations in tests:
            yield over_rdma.check(
                what,
                metric,
                PerftestServer(
                    test=test,
                    device=sink,
                    gid_address=sink_address,
                    message_bytes=message_bytes,
                    iterations=iterations,
                ),
                partial(
                    PerftestClient,
                    test=test,
                    device=source,
                    gid_address=source_address,
                    address=sink_address,
                    message_bytes=message_bytes,
                    iterations=iterations,
                ),
            )


def _rdma_device(topology: Topology, guest: str, nic: str) -> str | None:
    devices = topology.guests[guest].rdma.items()
    return next((name for name, rdma in devices if rdma.nic == nic), None)
