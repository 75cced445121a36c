"""Bring a topology up: every guest at once, and everything written down before it is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from secrets import token_hex

from lab.deadline import Deadline
from lab.errors import LabError
from lab.fabric import namespace
from lab.guest.agent_client import AgentClient
from lab.guest.agent_file import agent_bytes
from lab.guest.console import ConsoleLog
from lab.guest.keys import KeyPair, Keyring
from lab.guest.setup import (
    AGENT_PATH,
    READY_PATH,
    SETUP_LOG_PATH,
    SETUP_UNDER_CLOUD_INIT,
    seed_tree,
)
from lab.guest.ssh import Session, SshTarget, authenticate, greet
from lab.host import libvirt_daemon
from lab.host.accelerator import scale_s
from lab.images.image import Kernel
from lab.images.seed import (
    PER_BOOT_SCRIPT,
    FileTree,
    SeedFile,
    StaticNic,
    newc_cpio,
    nocloud_iso,
)
from lab.janitor import watched
from lab.plan import GuestPlan, LabPlan, plan
from lab.preparation import Prepared
from lab.progress import Progress, Step
from lab.providers.libvirt.provider import LibvirtProvider
from lab.providers.storage import create_disks
from lab.record import DEFAULT_LIFE_S, Record, claim
from lab.running import RunningLab, ssh_target
from lab.teardown import TEARDOWN_S, down, take_down, uninterrupted

# From the first instruction to the agent's answer, under KVM; TCG gets a multiple.
BOOT_S = 60.0
# A ready-made image also has firmware, a boot loader, all its units and cloud-init to go through.
READY_MADE_BOOT_S = 150.0
# sockaddr_un.sun_path is 108 bytes, with the terminating zero.
MAX_SOCKET_PATH_BYTES = 107
READY_MADE_HINT = (
    "a ready-made image boots by BIOS, has cloud-init with the NoCloud source, sshd and Python,"
    " and says more with console=ttyS0 on its kernel's command line"
)
MILESTONE_INTERVAL_S = 0.02
ALIVE_INTERVAL_S = 0.5
# Written when the last stage of a boot is over, whatever came of it.
CLOUD_INIT_RESULT = "/run/cloud-init/result.json"


class Cancelled(LabError):
    """Another guest failed, or the user interrupted: this guest's bring-up gives up."""


def bring_up(
    prepared: Prepared,
    name: str,
    *,
    progress: Progress,
    deadline: Deadline,
    life_s: float = DEFAULT_LIFE_S,
    bound_to: ExitStack | None = None,
) -> Record:
    """Make the lab that `prepared` describes; on any failure nothing of it is left.

    It lives until `lab down` or for `life_s`; with `bound_to`, for as long as that stack, which
    gets libvirt's connection, and this process.
    """
    topology = prepared.loaded.topology
    bound = bound_to is not None
    record = claim(
        name,
        prepared.loaded.text,
        str(prepared.loaded.path.resolve()),
        deadline,
        bound=bound,
        life_s=life_s,
    )
    lab = plan(topology, record.identity, record.directory)
    record = replace(
        record,
        uri=prepared.uri,
        fabric=prepared.machine.fabric,
        accelerator=prepared.machine.accelerator,
        accelerator_reason=prepared.accelerator_reason,
        domains=tuple(guest.domain for guest in lab.guests.values()),
        taps=tuple(tap.name for tap in lab.fabric.taps),
        images={name: image.digest for name, image in prepared.images.items()},
    )
    try:
        if record.fabric == "sockets":
            _check_sockets(lab)
        record.save()
        with ExitStack() as own:
            provider = (bound_to or own).enter_context(
                LibvirtProvider(prepared.uri, record.identity, prepared.machine, bound=bound)
            )
            phases = _Bringup(prepared, lab, provider, progress, deadline).run()
        lease = record.lease if bound else replace(record.lease, owner=None)
        record = replace(record, state="up", phases=phases, lease=lease)
        record.save()
    except BaseException:
        with uninterrupted():
            take_down(record, Deadline(TEARDOWN_S))
        raise
    return record


def _check_sockets(lab: LabPlan) -> None:
    """Raise LabError where the path of a socket would be longer than the kernel takes (unix(7))."""
    longest = max(lab.user_sockets(), key=lambda path: len(bytes(path)))
    if len(bytes(longest)) > MAX_SOCKET_PATH_BYTES:
        raise LabError(
            f"too long for a socket's path: {len(bytes(longest))} bytes, and the kernel takes"
            f" {MAX_SOCKET_PATH_BYTES}",
            where=str(longest),
            hint="give the lab a shorter --name, or set LAB_STATE_DIR to a shorter path",
        )


@contextmanager
def bound_lab(
    prepared: Prepared, *, progress: Progress, deadline: Deadline
) -> Iterator[RunningLab]:
    """A lab for the length of the block: not even SIGKILL of this process leaves any of it.

    It has a name of its own, so that several from one topology are up side by side.
    """
    name = f"{prepared.loaded.topology.name[:32]}-{token_hex(3)}"
    # An earlier lab from the same preparation has taken idle daemons with it.
    libvirt_daemon.ensure(deadline)
    with watched(name), ExitStack() as stack:
        # Registered first, called last: libvirt's daemons can end once the connection is closed.
        stack.callback(down, name)
        record = bring_up(prepared, name, progress=progress, deadline=deadline, bound_to=stack)
        with RunningLab(record) as lab:
            yield lab


class _Bringup:
    """One bring-up under way."""

    def __init__(
        self,
        prepared: Prepared,
        lab: LabPlan,
        provider: LibvirtProvider,
        progress: Progress,
        deadline: Deadline,
    ) -> None:
        self._prepared = prepared
        self._lab = lab
        self._provider = provider
        self._progress = progress
        self._deadline = deadline
        self._cancelled = threading.Event()
        self._phases: dict[str, dict[str, float]] = {
            name: {"image": prepared.image_s} for name in lab.guests
        }

    def run(self) -> dict[str, dict[str, float]]:
        """Seconds each guest spent in each phase."""
        keyring = Keyring(self._lab.directory / "keys")
        login, host_keys = keyring.create(list(self._lab.guests.values()))
        agent = agent_bytes()
        with ThreadPoolExecutor(len(self._lab.guests) + 1) as pool:
            try:
                fabric = pool.submit(self._create_fabric)
                self._all(
                    pool.submit(self._make, guest, login, host_keys[name], agent, fabric)
                    for name, guest in self._lab.guests.items()
                )
                if self._prepared.machine.fabric == "namespace":
                    namespace.adopt(self._lab.fabric)
                self._all(
                    pool.submit(self._boot, guest, ssh_target(guest, keyring))
                    for guest in self._lab.guests.values()
                )
            except BaseException:
                self._cancelled.set()
                raise
        return self._phases

    def _all(self, futures: Iterator[Future[None]]) -> None:
        """Wait for every future; the first real failure is raised at once."""
        done, _ = wait(list(futures), return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()

    def _create_fabric(self) -> None:
        if self._prepared.machine.fabric == "namespace":
            namespace.create(self._lab.fabric)

    def _make(
        self,
        guest: GuestPlan,
        login: KeyPair,
        host_key: KeyPair,
        agent: bytes,
        fabric: Future[None],
    ) -> None:
        image = self._prepared.images[guest.name]
        kernel = self._prepared.kernels[guest.name]
        with self._phase(guest, "overlay"):
            guest.directory.mkdir(parents=True)
            create_disks(guest, image, self._deadline)
            tree = seed_tree(
                guest,
                self._lab,
                host_key=host_key.private,
                host_public_key=host_key.public,
                authorized_key=login.public,
                agent=agent,
            )
            guest.seed.write_bytes(seed_bytes(guest, kernel, tree))
        fabric.result()
        with self._phase(guest, "define"):
            self._provider.define(
                guest, image, self._prepared.boot(guest.name, guest.management_mac, guest.seed)
            )

    def _boot(self, guest: GuestPlan, target: SshTarget) -> None:
        direct = self._prepared.kernels[guest.name] is not None
        boot_s = BOOT_S if direct else READY_MADE_BOOT_S
        deadline = self._deadline.within(scale_s(boot_s, self._prepared.machine.accelerator))
        console = ConsoleLog(guest.console_log)
        check = self._checker(guest)
        with self._progress.step(f"guest {guest.name}") as step:
            try:
                with self._phase(guest, "kernel", step):
                    self._provider.resume(guest)
                    if direct:
                        _await_milestone(console, "userspace", deadline, check)
                with self._phase(guest, "userspace", step):
                    connection = greet(target, deadline, alive=check)
                with self._phase(guest, "ssh", step):
                    session = authenticate(target, connection, deadline)
                with session, self._phase(guest, "agent", step):
                    _await_agent(session, guest, deadline)
                    if direct:
                        _await_milestone(console, "ready", deadline, check)
                    else:
                        _await_cloud_init(session, deadline)
            except Cancelled:
                raise
            except LabError as error:
                tail = f"the last lines of {guest.name}'s console:\n{console.tail(20)}"
                error.detail = "\n".join(filter(None, (error.detail, tail)))
                if not direct:
                    error.hint = READY_MADE_HINT
                raise

    def _checker(self, guest: GuestPlan) -> Callable[[], None]:
        """Raises when the guest cannot come up any more; asks libvirt now and then only."""
        last_s = time.monotonic()

        def check() -> None:
            nonlocal last_s
            if self._cancelled.is_set():
                raise Cancelled("given up", where=f"guest {guest.name}")
            if time.monotonic() - last_s > ALIVE_INTERVAL_S:
                self._provider.check_alive(guest)
                last_s = time.monotonic()

        return check

    @contextmanager
    def _phase(self, guest: GuestPlan, name: str, step: Step | None = None) -> Iterator[None]:
        if self._cancelled.is_set():
            raise Cancelled("given up", where=f"guest {guest.name}")
        if step:
            step.note(name)
        start_s = time.monotonic()
        yield
        self._phases[guest.name][name] = time.monotonic() - start_s


def seed_bytes(guest: GuestPlan, kernel: Kernel | None, tree: FileTree) -> bytes:
    """What brings `tree` into the guest: an initramfs for direct boot, else a NoCloud ISO."""
    if kernel is None:
        script = SeedFile(0o755, SETUP_UNDER_CLOUD_INIT.encode())
        return nocloud_iso(
            {**tree, PER_BOOT_SCRIPT: script},
            hostname=guest.name,
            instance_id=str(guest.uuid),
            nics=[
                StaticNic("management", guest.management_mac, "10.0.2.15/24", awaited=True),
                *(StaticNic(nic.name, nic.mac, str(nic.address), nic.mtu) for nic in guest.nics),
            ],
        )
    # The kernel unpacks archives that stand one behind another, each at a multiple of 4 bytes.
    initramfs = kernel.initramfs.read_bytes()
    return initramfs + b"\0" * (-len(initramfs) % 4) + newc_cpio(tree)


def _await_milestone(
    console: ConsoleLog, name: str, deadline: Deadline, check: Callable[[], None]
) -> None:
    def reached() -> bool:
        check()
        if failure := console.failure():
            raise LabError(f"the guest gave up: {failure}", where=str(console.path))
        return name in console.milestones()

    deadline.poll(reached, f"the boot to reach `{name}`", interval_s=MILESTONE_INTERVAL_S)


def _await_agent(session: Session, guest: GuestPlan, deadline: Deadline) -> None:
    with session.channel(f"{AGENT_PATH} serve") as channel:
        AgentClient(channel, guest.name).hello(deadline)


def _await_cloud_init(session: Session, deadline: Deadline) -> None:
    """Return once cloud-init is through and the guest's own set-up went well.

    What else cloud-init has to complain about is the image's business. `cloud-init status --wait`
    would not wait for the end once any module has failed.
    """
    session.run(f"until test -e {CLOUD_INIT_RESULT}; do sleep 0.5; done", deadline=deadline)
    done = session.run(
        f"test -e {READY_PATH} || {{ cat {SETUP_LOG_PATH}; cloud-init status --long; exit 1; }}",
        deadline=deadline,
    )
    if done.returncode != 0:
        raise LabError(
            "cloud-init did not set the guest up",
            where=session.target.where,
            detail=done.stdout + done.stderr,
        )
