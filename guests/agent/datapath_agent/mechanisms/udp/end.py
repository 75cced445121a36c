"""One end of the mechanism: its sockets, its workers' processes, and what joins them.

A worker is one process that is both protocol and datapath, or under maximum throughput one
process of each, joined by a ring and an eventfd each way.
"""

from __future__ import annotations

import mmap
import os

from datapath_agent.measurement.usage import usage, used_since
from datapath_agent.mechanisms.udp.events import EventQueue, doorbell, ring
from datapath_agent.mechanisms.udp.lanes import Counts, Receiver, Sender
from datapath_agent.mechanisms.udp.placement import places, settle
from datapath_agent.mechanisms.udp.ring import Ring

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.mechanisms.udp.lanes import Datagram, Deliver
    from datapath_agent.team import Member, Team

    Report = dict[str, Any]
    # Makes a worker's protocol, which has a `deliver(sender, datagram)`, from its senders.
    MakeProtocol = Callable[[int, list[Sender]], Any]
    # Lives in the protocol's process until the end of the run, and reports.
    Live = Callable[[Member, "Process", Any], Report]

LOOK_S = 0.1


class Process:
    """What a process of a worker has of its own."""

    def __init__(self, doorbell_fd: int) -> None:
        self.events = EventQueue(doorbell_fd)
        self.counts = Counts()
        self.restart()

    def restart(self) -> None:
        """Count from here."""
        self._usage = usage()
        self._counts = self.counts.as_dict()
        self._wakeups = self.events.wakeups

    def counted(self) -> dict[str, float]:
        """Counters and usage since then."""
        return {
            **{name: value - self._counts[name] for name, value in self.counts.as_dict().items()},
            "epoll_wakeups": self.events.wakeups - self._wakeups,
            **used_since(self._usage),
        }


class End:
    """Made before the fork. `endpoints` are each worker's sockets; a server's has one."""

    def __init__(
        self,
        policy: dict[str, Any],
        parameters: dict[str, Any],
        endpoints: list[list[socket.socket]],
        *,
        is_server: bool,
    ) -> None:
        self._policy = policy
        self._pin: bool = parameters["pin"]
        self._inline_max: int = parameters["inline_max"] if policy["recv"] == "inline" else 0
        self._endpoints = endpoints
        self._is_server = is_server
        workers = range(len(endpoints))
        cpus = sorted(os.sched_getaffinity(0))
        self.places = places(cpus, policy, len(workers), is_server=is_server)
        self.is_split: bool = policy["profile"] == "maxtput"
        self._datapath_doorbells = [doorbell() for _ in workers]
        self._protocol_doorbells = [doorbell() for _ in workers if self.is_split]
        self._received = [Ring() for _ in workers if self.is_split]
        # Sends that leave the protocol's process: (from worker, to worker).
        self._handed = {
            (source, target): Ring()
            for source in workers
            for target in workers
            if policy["send"] == "queue_datapath"
            or (policy["send"] == "queue_self" and source != target and is_server)
        }
        # Which workers' protocols are over, so that their datapaths end too.
        self._over = mmap.mmap(-1, len(endpoints))

    def fork(self, team: Team, make: MakeProtocol, live: Live) -> None:
        """Start every worker's processes."""
        for worker in range(len(self._endpoints)):
            if self.is_split:
                team.fork(f"datapath {worker}", self._datapath_alone(worker))
                team.fork(f"worker {worker}", self._protocol_alone(worker, make, live))
            else:
                team.fork(f"worker {worker}", self._whole(worker, make, live))

    def close(self) -> None:
        for fd in (*self._datapath_doorbells, *self._protocol_doorbells):
            os.close(fd)
        for endpoints in self._endpoints:
            for endpoint in endpoints:
                endpoint.close()

    def _whole(self, worker: int, make: MakeProtocol, live: Live) -> Callable[[Member], Report]:
        def body(member: Member) -> Report:
            process = self._process(
                self.places[worker].datapath_cpu, self._datapath_doorbells[worker]
            )
            senders = self._senders(worker, process)
            protocol = make(worker, senders)
            self._open_datapath(worker, process, senders, protocol.deliver)
            return live(member, process, protocol)

        return body

    def _protocol_alone(
        self, worker: int, make: MakeProtocol, live: Live
    ) -> Callable[[Member], Report]:
        def body(member: Member) -> Report:
            process = self._process(
                self.places[worker].protocol_cpu, self._protocol_doorbells[worker]
            )
            senders = self._senders(worker, process)
            protocol = make(worker, senders)

            def take() -> None:
                for index, datagram in self._received[worker].take():
                    protocol.deliver(senders[index], datagram)

            process.events.watch_doorbell(take)
            try:
                return live(member, process, protocol)
            finally:
                self._over[worker] = 1

        return body

    def _datapath_alone(self, worker: int) -> Callable[[Member], Report]:
        def body(member: Member) -> Report:
            process = self._process(
                self.places[worker].datapath_cpu, self._datapath_doorbells[worker]
            )

            def deliver(sender: Sender, datagram: Datagram) -> None:
                if self._received[worker].put(sender.index, datagram):
                    ring(self._protocol_doorbells[worker])
                else:
                    process.counts.ring_full += 1

            self._open_datapath(worker, process, self._senders(worker, process), deliver)
            member.ready()
            process.restart()
            while not (member.should_stop or self._over[worker]):
                try:
                    process.events.turn(LOOK_S)
                except ConnectionRefusedError:
                    continue  # the protocol will miss the answers
            return {"counted": process.counted()}

        return body

    def _process(self, cpu: int, doorbell_fd: int) -> Process:
        settle(cpu, pin=self._pin, is_real_time=self._policy["profile"] == "realtime")
        return Process(doorbell_fd)

    def _senders(self, worker: int, process: Process) -> list[Sender]:
        """A client's worker sends on its own sockets, a server's on those of every worker."""
        if self._is_server:
            owned = [(owner, each[0]) for owner, each in enumerate(self._endpoints)]
        else:
            owned = [(worker, endpoint) for endpoint in self._endpoints[worker]]
        senders = []
        for index, (owner, endpoint) in enumerate(owned):
            sender = Sender(
                endpoint,
                process.counts,
                index=index,
                cpu=self.places[owner].datapath_cpu,
                is_server=self._is_server,
            )
            if (worker, owner) in self._handed:
                sender.hand_to(self._handed[worker, owner], self._datapath_doorbells[owner])
            elif self._policy["send"] == "queue_self":
                sender.post_to(process.events)
            senders.append(sender)
        return senders

    def _open_datapath(
        self, worker: int, process: Process, senders: list[Sender], deliver: Deliver
    ) -> None:
        """Receive on the worker's sockets, and transmit what other processes hand over."""
        own = [senders[worker]] if self._is_server else senders
        for sender, endpoint in zip(own, self._endpoints[worker]):
            Receiver(
                endpoint,
                sender,
                process.events,
                process.counts,
                deliver,
                inline_max=self._inline_max,
                is_server=self._is_server,
            )
        incoming = [each for (_, target), each in self._handed.items() if target == worker]

        def transmit() -> None:
            for each in incoming:
                for index, datagram in each.take():
                    senders[index].transmit(datagram)

        if incoming:
            process.events.watch_doorbell(transmit)
