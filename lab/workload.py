"""One run of a mechanism or workload on a lab that is up: in one guest, or between two."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from lab.deadline import Deadline
from lab.errors import Exit, InputError
from lab.guest import catalogue
from lab.guest.agent_client import AgentError, OnProgress, Result
from lab.guest.catalogue import Runnable
from lab.guest.setup import AGENT_PATH
from lab.guest.workloads import GivenWorkload
from lab.running import RunningGuest, RunningLab

LOOPBACK = "127.0.0.1"
# Before the names of the counters of a mechanism's other end.
SERVER_COUNTERS = "server_"
# For the other end to be listening, and to hand over its own result: agents start in this time.
SERVER_S = 60.0
# What the agent refuses because of what it was asked, not because of the state of its guest.
_ASKED_WRONG = ("bad-parameter", "inexpressible", "refused", "unknown-workload")


@dataclass(frozen=True)
class Ends:
    """Where something runs, and where its other end is; the same guest may be both."""

    here: RunningGuest
    there: RunningGuest

    @property
    def segment(self) -> str | None:
        """The segment that both are on; None inside one guest. Raises InputError without one."""
        if self.here is self.there:
            return None
        theirs = {nic.segment for nic in self.there.plan.nics}
        for nic in self.here.plan.nics:
            if nic.segment in theirs:
                return nic.segment
        raise InputError(
            f"guests {self.here.name} and {self.there.name} share no segment",
            hint="give both a NIC on one in the topology, or name others with --guest and --peer",
        )

    @property
    def address(self) -> str:
        """The other end's address, as this end reaches it."""
        segment = self.segment
        if segment is None:
            return LOOPBACK
        nics = self.there.plan.nics
        return next(str(nic.address.ip) for nic in nics if nic.segment == segment)


def choose_ends(lab: RunningLab, guest: str | None, peer: str | None) -> Ends:
    """The guests named, or `client` and `server`, or the topology's first two, or its only one."""
    known = list(lab.guests)
    chosen = guest or ("client" if "client" in known else known[0])
    others = [name for name in known if name != chosen]
    other = peer or ("server" if "server" in others else others[0] if others else chosen)
    return Ends(lab.guest(chosen), lab.guest(other))


def run_workload(
    lab: RunningLab,
    name: str,
    given: Mapping[str, Any],
    *,
    guest: str | None = None,
    peer: str | None = None,
    deadline: Deadline,
    on_progress: OnProgress | None = None,
    agent: str = AGENT_PATH,
) -> Result:
    """Run `name` once with the policies and parameters `given`; its other end is started, too.

    `agent` is the path in the guests of the agent that runs it.

    The counters of a mechanism's other end are among the result's, named SERVER_COUNTERS + name.
    Raises InputError for what it cannot be given, AgentError when the agent refuses or fails
    (with what was measured until then), LabError when a guest is lost.
    """
    runnable = catalogue.find(name)
    ends = choose_ends(lab, guest, peer)
    complete = {**_line_rate(lab, runnable, ends), **given}
    if not runnable.server:
        runnable.check(complete)
        workload = GivenWorkload(runnable.client, complete)
        return _run(ends.here, workload, agent, deadline, on_progress)
    complete = {"address": ends.address, **complete}
    # Port 1 stands for the one that the server will report.
    runnable.check({**complete, "port": 1})
    with ExitStack() as stack:
        other = stack.enter_context(ends.there.agent(agent))
        server = GivenWorkload(runnable.server, runnable.of_server(complete))
        listening = stack.enter_context(other.start(server, deadline=deadline.within(SERVER_S)))
        client = GivenWorkload(runnable.client, {**complete, "port": listening.port})
        result = _run(ends.here, client, agent, deadline, on_progress)
        return with_server(result, listening.stop(deadline))


def with_server(result: Result, server: Result | None) -> Result:
    """`result` with what the other end counted."""
    if not (result.mechanism and server and server.mechanism):
        return result
    theirs = {SERVER_COUNTERS + name: n for name, n in server.mechanism.counters.items()}
    counters = {**result.mechanism.counters, **theirs}
    return replace(result, mechanism=replace(result.mechanism, counters=counters))


def _run(
    guest: RunningGuest,
    workload: GivenWorkload,
    agent: str,
    deadline: Deadline,
    on_progress: OnProgress | None,
) -> Result:
    with guest.agent(agent) as client:
        try:
            return client.run(workload, deadline=deadline, on_progress=on_progress)
        except AgentError as error:
            if error.kind in _ASKED_WRONG:
                error.exit_code = Exit.BAD_INPUT
            raise


def _line_rate(lab: RunningLab, runnable: Runnable, ends: Ends) -> dict[str, Any]:
    """What the topology knows better than a user: the line rate of the segment between them."""
    if "line_rate_mbps" not in runnable.kinds or ends.segment is None:
        return {}
    rate_bps = lab.topology.segments[ends.segment].rate
    return {"line_rate_mbps": rate_bps // 1_000_000} if rate_bps else {}
