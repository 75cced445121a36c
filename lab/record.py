"""What is written down about a lab before it exists and until it is gone.

One JSON file a lab, replaced atomically. It names everything that bring-up may have made, so a
lab can be taken down by a later process, after a crash or a reboot, and without its YAML.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.host.locks import locked
from lab.host.processes import ProcessIdentity, boot_id, own_identity
from lab.host.state import labs_dir, locks_dir
from lab.plan import MAX_SLOTS, Identity

RECORD = "lab.json"
TOPOLOGY = "topology.yaml"
DEFAULT_LIFE_S = 24 * 3600.0


@dataclass(frozen=True)
class Lease:
    """Who answers for a lab, and until when.

    `owner` works on the lab (bringing it up or down) or, for a `bound` lab, is what it lives
    for: once that process is gone, or the host has booted again, or time is up, anyone may reap.
    """

    owner: ProcessIdentity | None
    bound: bool
    boot: str
    expires_at: float

    def lapsed(self) -> str | None:
        """Why the lab may be reaped, or None while it may not."""
        if self.boot != boot_id():
            return "the host has booted since"
        if self.owner and not self.owner.alive:
            return f"its process {self.owner.pid} is gone"
        if time.time() > self.expires_at:
            return "its lease has expired"
        return None


@dataclass(frozen=True)
class Record:
    """A lab on this host. Times are seconds since the epoch, phases seconds."""

    identity: Identity
    lease: Lease
    state: Literal["building", "up"]
    source: str
    uri: str = ""
    fabric: Literal["namespace", "sockets"] = "namespace"
    accelerator: Literal["kvm", "tcg"] = "tcg"
    accelerator_reason: str = ""
    domains: tuple[str, ...] = ()
    taps: tuple[str, ...] = ()
    created_at: float = 0.0
    images: Mapping[str, str] = field(default_factory=dict)
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return labs_dir() / self.identity.name

    @property
    def topology_path(self) -> Path:
        """The lab's own copy of the YAML it was made from."""
        return self.directory / TOPOLOGY

    def save(self) -> None:
        partial = self.directory / f"{RECORD}.partial"
        partial.write_text(json.dumps(asdict(self), indent=1))
        partial.rename(self.directory / RECORD)


@contextmanager
def registry(deadline: Deadline) -> Iterator[None]:
    """Exclusive access to the set of labs; held for moments only."""
    with locked(locks_dir() / "labs.lock", "the registry of labs", deadline):
        yield


def claim(
    name: str, topology_text: str, source: str, deadline: Deadline, *, bound: bool, life_s: float
) -> Record:
    """Write a new lab down, with an identity that no other lab has.

    Raises InputError when a lab of that name exists, LabError when no slot has its ports free.
    """
    with registry(deadline):
        taken = {record.identity.slot for record in records()}
        directory = labs_dir() / name
        if (directory / RECORD).exists():
            raise InputError(
                f"a lab named {name} exists already",
                hint=f"`lab status` shows it; `lab down {name}` removes it; or name this one"
                " otherwise",
            )
        # A claim that was killed before it wrote its record had made nothing else yet.
        shutil.rmtree(directory, ignore_errors=True)
        identity = Identity(name, token_hex(3), _free_slot(name, taken))
        now = time.time()
        record = Record(
            identity=identity,
            lease=Lease(own_identity(), bound, boot_id(), now + life_s),
            state="building",
            source=source,
            created_at=now,
        )
        directory.mkdir(mode=0o755, parents=True)
        record.topology_path.write_text(topology_text)
        record.save()
        return record


def own(record: Record, deadline: Deadline) -> Record:
    """Take the lab over for this process; LabError while another live process works on it."""
    with registry(deadline):
        current = load(record.identity.name) or record
        owner = current.lease.owner
        if owner and owner.alive and owner != own_identity():
            raise LabError(
                f"process {owner.pid} is working on lab {record.identity.name}",
                hint="wait for it, or end it and run `lab reap`",
            )
        mine = replace(current, lease=replace(current.lease, owner=own_identity()))
        mine.save()
        return mine


def records() -> list[Record]:
    """Every lab written down on this host, by name."""
    if not labs_dir().is_dir():
        return []
    found = (load(entry.name) for entry in sorted(labs_dir().iterdir()) if entry.is_dir())
    return [record for record in found if record]


def load(name: str) -> Record | None:
    """The record of lab `name`, or None when there is no such lab."""
    try:
        text = (labs_dir() / name / RECORD).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _from_json(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"not a lab's record: {error}",
            where=str(labs_dir() / name / RECORD),
            hint="remove the directory after `virsh list` and `ip netns` show nothing of this lab",
        ) from error


def forget(record: Record) -> None:
    """Remove the lab's directory: overlays, keys, consoles and, with them, its record."""
    shutil.rmtree(record.directory, ignore_errors=True)
    if record.directory.exists():
        raise LabError("cannot remove the lab's directory", where=str(record.directory))


def _from_json(data: dict[str, Any]) -> Record:
    lease = data["lease"]
    owner = lease["owner"]
    return Record(
        **{
            **data,
            "identity": Identity(**data["identity"]),
            "lease": Lease(**{**lease, "owner": ProcessIdentity(**owner) if owner else None}),
            "domains": tuple(data["domains"]),
            "taps": tuple(data["taps"]),
        }
    )


def _free_slot(name: str, taken: set[int]) -> int:
    for slot in range(MAX_SLOTS):
        if slot not in taken and all(_bindable(p) for p in Identity(name, "", slot).ssh_ports()):
            return slot
    raise LabError(
        f"none of the {MAX_SLOTS} slots for labs has all its ports free",
        hint="`lab status` lists the labs that are up; `ss -ltn` shows who listens",
    )


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # As QEMU does: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
