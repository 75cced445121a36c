"""A lab that is up, as commands and tests use it."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from ipaddress import IPv4Address
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import paramiko

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.guest.agent_client import AgentClient
from lab.guest.console import ConsoleLog
from lab.guest.keys import Keyring
from lab.guest.setup import AGENT_PATH
from lab.guest.ssh import Session, SshTarget, connect
from lab.host.accelerator import scale_s
from lab.plan import GuestPlan, LabPlan, plan
from lab.providers.libvirt.provider import LibvirtProvider
from lab.record import Record, load, records
from lab.topology.load import parse
from lab.topology.model import Topology

if TYPE_CHECKING:
    from testinfra.host import Host

CONNECT_S = 60.0
# What a guest still starts after its agent has answered.
SETTLE_S = 30.0
# Generous for an inspection under TCG, short enough that a hung guest fails its test.
COMMAND_S = 60.0


class RunningGuest:
    """One guest: its ssh session and agent are made on first use and shared from then on.

    The first failure to reach the guest is remembered: every later use reports it at once.
    """

    def __init__(
        self, guest: GuestPlan, target: SshTarget, check_alive: Callable[[], None]
    ) -> None:
        self.plan = guest
        self.name = guest.name
        self.target = target
        self.console = ConsoleLog(guest.console_log)
        self._check_alive = check_alive
        self._session: Session | None = None
        self._broken: LabError | None = None

    @property
    def addresses(self) -> Mapping[str, IPv4Address]:
        """NIC -> its address on the data network."""
        return {nic.name: nic.address.ip for nic in self.plan.nics}

    def session(self, deadline: Deadline | None = None) -> Session:
        if self._broken:
            raise self._broken
        if self._session is None or not self._session.alive:
            deadline = deadline or Deadline(CONNECT_S)
            try:
                self._check_alive()
                self._session = connect(self.target, deadline, alive=self._check_alive)
            except LabError as error:
                error.detail = error.detail or self.console.tail(10)
                self._broken = error
                raise
        return self._session

    @contextlib.contextmanager
    def agent(self, path: str = AGENT_PATH) -> Iterator[AgentClient]:
        """The datapath agent, started for this conversation and ended with it.

        `path` is that of another build: see `put_agent`.
        """
        with self.session().channel(f"{path} serve") as channel:
            yield AgentClient(channel, self.name)

    def put_agent(self, agent: bytes, path: str) -> None:
        """Another build of the agent (lab.guest.agent_file.agent_bytes), beside the lab's own."""
        with self.session().sftp() as sftp:
            with sftp.open(path, "wb") as file:
                file.write(agent)
            sftp.chmod(path, 0o755)

    def settle(self, deadline: Deadline) -> None:
        """Return once systemd has started all that it was to start.

        A unit that failed is not this call's business: a guest may be looked into with one.
        """
        done = self.session().run("systemctl is-system-running --wait", deadline=deadline)
        if done.stdout.strip() not in ("running", "degraded"):
            raise LabError(
                f"systemd is {done.stdout.strip() or done.stderr.strip()}",
                where=f"guest {self.name}",
            )

    @cached_property
    def host(self) -> Host:
        """The guest as testinfra sees it: `guest.host.interface("lan0").addresses`."""
        from lab.guest.inspection import inspect

        return inspect(self.name, self.session(), COMMAND_S)

    def close(self) -> None:
        if self._session:
            self._session.close()


class RunningLab:
    """The guests of a lab that is up; a context manager that closes sessions, not guests."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.topology: Topology = parse(
            record.topology_path.read_text(), record.topology_path
        ).topology
        self.plan: LabPlan = plan(self.topology, record.identity, record.directory)
        self.keyring = Keyring(record.directory / "keys")
        self.guests = {
            name: RunningGuest(
                guest, ssh_target(guest, self.keyring), partial(self._check_alive, guest)
            )
            for name, guest in self.plan.guests.items()
        }

    @property
    def accelerator(self) -> Literal["kvm", "tcg"]:
        return self.record.accelerator

    def scaled(self, seconds: float) -> Deadline:
        """A deadline for work that takes `seconds` under KVM."""
        return Deadline(scale_s(seconds, self.accelerator))

    @cached_property
    def provider(self) -> LibvirtProvider:
        return LibvirtProvider(self.record.uri, self.record.identity)

    def guest(self, name: str) -> RunningGuest:
        if name not in self.guests:
            raise InputError(
                f"lab {self.record.identity.name} has no guest {name}",
                hint=f"its guests: {', '.join(self.guests)}",
            )
        return self.guests[name]

    def settle(self) -> None:
        """Return once no guest is busy with its own boot any more: it would be measured, too."""
        for guest in self.guests.values():
            guest.settle(self.scaled(SETTLE_S))

    def _check_alive(self, guest: GuestPlan) -> None:
        self.provider.check_alive(guest)

    def close(self) -> None:
        for guest in self.guests.values():
            guest.close()
        if "provider" in self.__dict__:
            self.provider.close()

    def __enter__(self) -> RunningLab:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()


def ssh_target(guest: GuestPlan, keyring: Keyring) -> SshTarget:
    host_key = keyring.host_key_line(guest).split()[1]
    return SshTarget(
        guest=guest.name,
        port=guest.ssh_port,
        key=keyring.login_key,
        host_key=paramiko.Ed25519Key(data=base64.b64decode(host_key)),
    )


def find(name: str | None) -> RunningLab:
    """The lab called `name`, or the only one that is up.

    Raises InputError when there is no such lab or no single one, LabError when it is broken.
    """
    if name:
        record = load(name)
        if not record:
            raise InputError(f"no lab named {name} is up", hint="`lab status` lists those that are")
    else:
        known = records()
        if len(known) != 1:
            names = ", ".join(record.identity.name for record in known)
            raise InputError(
                f"several labs are up: {names}" if known else "no lab is up",
                hint="name one with --lab" if known else "`lab up TOPOLOGY` brings one up",
            )
        record = known[0]
    if record.state == "building":
        name, owner = record.identity.name, record.lease.owner
        if owner and owner.alive:
            raise LabError(
                f"process {owner.pid} is bringing lab {name} up", hint="wait until it is through"
            )
        raise LabError(
            f"the bring-up of lab {name} was killed",
            hint=f"`lab down {name}` or `lab reap` removes what it left; then bring it up again",
        )
    return RunningLab(record)
