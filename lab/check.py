"""`lab check`: does every disk, link and RDMA device of a lab carry traffic, and how much?

What to measure follows from the topology alone; each measurement is a row of the report,
measured or failed, and one that fails does not keep the others from being made.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Address
from typing import Literal, Protocol

from lab.deadline import Deadline
from lab.errors import Exit, LabError
from lab.guest.agent_client import AgentClient, AgentError, Metric, Result
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
from lab.progress import Progress
from lab.topology.model import Nic, Topology

MIB = 1 << 20
# One measurement with its start-up in an emulated guest, beside the time it measures for.
MEASUREMENT_S = 60.0
RDMA_ITERATIONS = 1000

# native: the device class and driver that one has in production (virtio). emulated: software
# standing in for hardware (e1000e, rxe, siw): its figures say that it works, not how fast.
Fidelity = Literal["native", "emulated"]


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


@dataclass(frozen=True)
class CheckRow:
    """A measurement that was made: one figure a run, or why there is none."""

    what: str
    place: str
    fidelity: Fidelity
    figures: tuple[Metric, ...]
    error: str | None = None

    @property
    def median(self) -> Metric | None:
        if not self.figures:
            return None
        first = self.figures[0]
        value = statistics.median(figure.value for figure in self.figures)
        return Metric(first.name, first.unit, first.direction, value)


@dataclass(frozen=True)
class CheckReport:
    accelerator: str
    rows: tuple[CheckRow, ...]
    elapsed_s: float

    @property
    def exit_code(self) -> Exit:
        """NOTHING_MEASURED without a single figure, BROKEN_LAB if any measurement failed."""
        if not any(row.figures for row in self.rows):
            return Exit.NOTHING_MEASURED
        return Exit.BROKEN_LAB if any(row.error for row in self.rows) else Exit.OK


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


def run_check(
    lab: CheckedLab, *, deadline: Deadline, progress: Progress, profile: Profile
) -> CheckReport:
    """Measure all that `lab` has, one thing at a time. Failures are rows, not exceptions."""
    rows: list[CheckRow] = []
    checks = plan_checks(lab, profile)
    with ExitStack() as stack:
        agents = Agents(lab, stack)
        with progress.step("check") as step:
            for number, check in enumerate(checks, start=1):
                step.note(f"{number}/{len(checks)} {check.what}, {check.place}")
                rows.append(_make(check, agents, deadline, profile.runs))
    return CheckReport(lab.accelerator, tuple(rows), deadline.elapsed_s)


def _make(check: Check, agents: Agents, deadline: Deadline, runs: int) -> CheckRow:
    figures: list[Metric] = []
    error: str | None = None
    try:
        for _ in range(runs):
            deadline.check(f"the check of {check.place}")
            result = check.measure(agents, deadline.within(MEASUREMENT_S))
            figures.append(result[check.metric])
    except AgentError as problem:
        error = str(problem)
    except LabError as problem:
        agents.lose(check.guests, problem)
        error = str(problem)
    return CheckRow(check.what, check.place, check.fidelity, tuple(figures), error)


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
            ("ib_write_bw", "RDMA write 64 KiB", "bandwidth", 65536, 0),
            ("ib_write_lat", "RDMA write latency, p50", "latency_p50", 2, RDMA_ITERATIONS),
        )
        for test, what, metric, message_bytes, iterations in tests:
            runtime_s = max(1, round(profile.runtime_s))
            yield over_rdma.check(
                what,
                metric,
                PerftestServer(
                    test=test,
                    device=sink,
                    gid_address=sink_address,
                    message_bytes=message_bytes,
                    iterations=iterations,
                    runtime_s=runtime_s,
                ),
                partial(
                    PerftestClient,
                    test=test,
                    device=source,
                    gid_address=source_address,
                    address=sink_address,
                    message_bytes=message_bytes,
                    iterations=iterations,
                    runtime_s=runtime_s,
                ),
            )


def _rdma_device(topology: Topology, guest: str, nic: str) -> str | None:
    devices = topology.guests[guest].rdma.items()
    return next((name for name, rdma in devices if rdma.nic == nic), None)
