"""Take labs down from what is written about them: no topology, no earlier process needed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from lab.deadline import Deadline
from lab.errors import LabError
from lab.fabric import namespace
from lab.fabric.plan import FabricPlan, TapPlan
from lab.host import libvirt_daemon
from lab.host.state import labs_dir, state_root
from lab.providers.libvirt.provider import LibvirtProvider, qemu_pids
from lab.record import RECORD, Record, forget, load, own, records, registry

TEARDOWN_S = 60.0


def take_down(record: Record, deadline: Deadline) -> None:
    """Remove every trace of a lab; what is gone already is fine.

    Each kind of resource is removed whatever became of the others; the record goes last, so that
    a lab that could not be removed can be tried again. Raises LabError with all that failed.
    """
    record = own(record, deadline)
    failures: list[str] = []

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except LabError as error:
            failures.append(str(error))

    attempt(lambda: _destroy_domains(record, deadline))
    if record.fabric == "namespace":
        taps = tuple(TapPlan(name, segment="", queues=1, mtu=1500) for name in record.taps)
        attempt(lambda: namespace.destroy(FabricPlan(record.identity.prefix, (), taps)))
    if failures:
        raise LabError(
            f"lab {record.identity.name} could not be removed whole",
            detail="\n".join(failures),
            hint="`lab doctor` says what the host lacks; then run `lab reap`",
        )
    with registry(deadline):
        forget(record)
    stop_idle_daemons(deadline)


def _destroy_domains(record: Record, deadline: Deadline) -> None:
    if not record.domains:
        return
    # A lab is also taken down where its daemon has gone: it is started to look for domains.
    uri = libvirt_daemon.ensure(deadline)
    with (
        LibvirtProvider(uri, record.identity) as provider,
        ThreadPoolExecutor(len(record.domains)) as pool,
    ):
        list(pool.map(lambda domain: _destroy(provider, domain, deadline), record.domains))


def _destroy(provider: LibvirtProvider, domain: str, deadline: Deadline) -> None:
    provider.destroy(domain, deadline)
    # libvirt may have been in the middle of starting it when its client was killed.
    deadline.poll(lambda: not list(qemu_pids(domain)), f"the QEMU process of {domain} to end")


def reap(deadline: Deadline) -> list[tuple[str, str]]:
    """Take down every lab whose lease has lapsed: (lab, why it was reaped)."""
    reaped = []
    for record in records():
        if why := record.lease.lapsed():
            take_down(record, deadline)
            reaped.append((record.identity.name, why))
    with registry(deadline):
        reaped += [(name, "its claim was never finished") for name in _remove_unclaimed()]
    stop_idle_daemons(deadline)
    return reaped


def _remove_unclaimed() -> Iterator[str]:
    """Directories of claims that were killed before a record was written; nothing else exists."""
    if labs_dir().is_dir():
        for directory in labs_dir().iterdir():
            if directory.is_dir() and not (directory / RECORD).exists():
                shutil.rmtree(directory)
                yield directory.name


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a second ctrl-C wait until cleaning up is over; it is bounded by a deadline."""
    previous = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def stop_idle_daemons(deadline: Deadline) -> None:
    """End the libvirt daemons that the lab started, once no lab needs them."""
    with registry(deadline):
        if not records():
            libvirt_daemon.stop_own(state_root())


def down(name: str) -> bool:
    """Take lab `name` down; False when there was none."""
    deadline = Deadline(TEARDOWN_S)
    record = load(name)
    if not record:
        stop_idle_daemons(deadline)
        return False
    take_down(record, deadline)
    return True
