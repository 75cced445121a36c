"""One run of a mechanism on a lab that is up: in one guest, or between two."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from lab.deadline import Deadline
from lab.errors import Exit, InputError
from lab.guest import mechanisms
from lab.guest.agent_client import AgentError, OnProgress, Result
from lab.guest.workloads import MechanismWorkload
from lab.running import RunningGuest, RunningLab

SERVER_SUFFIX = "-server"
LOOPBACK = "127.0.0.1"
# For the other end to be listening, and to hand over its own result: agents start in this time.
SERVER_S = 60.0
# What the agent refuses because of what it was asked, not because of the state of its guest.
_ASKED_WRONG = ("bad-parameter", "inexpressible", "unknown-workload")


@dataclass(frozen=True)
class Ends:
    """Where a mechanism runs, and where its other end is; the same guest may be both."""

    guest: str
    peer: str


def choose_ends(lab: RunningLab, guest: str | None, peer: str | None) -> Ends:
    """The guests named, or `client` and `server`, or the topology's first two, or its only one."""
    known = list(lab.guests)
    chosen = guest or ("client" if "client" in known else known[0])
    others = [name for name in known if name != chosen]
    other = peer or ("server" if "server" in others else others[0] if others else chosen)
    return Ends(lab.guest(chosen).name, lab.guest(other).name)


def run_mechanism(
    lab: RunningLab,
    name: str,
    given: Mapping[str, Any],
    *,
    guest: str | None = None,
    peer: str | None = None,
    deadline: Deadline,
    on_progress: OnProgress | None = None,
) -> Result:
    """Run mechanism `name` once, its other end beside it where it has one.

    Raises InputError for what it cannot be given, AgentError when the agent refuses or fails
    (with what was measured until then), LabError when a guest is lost.
    """
    mechanism = mechanisms.find(name)
    ends = choose_ends(lab, guest, peer)
    here, there = lab.guest(ends.guest), lab.guest(ends.peer)
    complete = {**_filled_in(lab, name, ends), **given}
    if not mechanism.serve:
        mechanisms.check(name, complete)
        return _run(here, MechanismWorkload(name, complete), deadline, on_progress)
    address = _address(ends, here, there)
    # Port 1 stands for the one that the server will report.
    mechanisms.check(name, {**complete, "address": address, "port": 1})
    with ExitStack() as stack:
        agent = stack.enter_context(there.agent())
        own = {each.name for each in (*mechanism.policies, *mechanism.server_parameters)}
        shared = {key: value for key, value in complete.items() if key in own | {"preset"}}
        server = MechanismWorkload(name + SERVER_SUFFIX, {**shared, "address": address})
        listening = stack.enter_context(agent.start(server, deadline=deadline.within(SERVER_S)))
        client = {**complete, "address": address, "port": listening.port}
        return _run(here, MechanismWorkload(name, client), deadline, on_progress)


def _run(
    guest: RunningGuest,
    workload: MechanismWorkload,
    deadline: Deadline,
    on_progress: OnProgress | None,
) -> Result:
    with guest.agent() as agent:
        try:
            return agent.run(workload, deadline=deadline, on_progress=on_progress)
        except AgentError as error:
            if error.kind in _ASKED_WRONG:
                error.exit_code = Exit.BAD_INPUT
            raise


def _filled_in(lab: RunningLab, name: str, ends: Ends) -> dict[str, Any]:
    """What the topology knows better than a user: the line rate of the segment between them."""
    if "line_rate_mbps" not in mechanisms.kinds(name) or ends.guest == ends.peer:
        return {}
    rate_bps = lab.topology.segments[_segment(lab.guest(ends.guest), lab.guest(ends.peer))].rate
    return {"line_rate_mbps": rate_bps // 1_000_000} if rate_bps else {}


def _address(ends: Ends, here: RunningGuest, there: RunningGuest) -> str:
    """The other end's address on the segment that both are on; loopback inside one guest."""
    if ends.guest == ends.peer:
        return LOOPBACK
    segment = _segment(here, there)
    return next(str(nic.address.ip) for nic in there.plan.nics if nic.segment == segment)


def _segment(here: RunningGuest, there: RunningGuest) -> str:
    theirs = {nic.segment for nic in there.plan.nics}
    for nic in here.plan.nics:
        if nic.segment in theirs:
            return nic.segment
    raise InputError(
        f"guests {here.name} and {there.name} share no segment",
        hint="give both a NIC on one in the topology, or name others with --guest and --peer",
    )
