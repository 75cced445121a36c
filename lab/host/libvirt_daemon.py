"""libvirt where nobody starts it: the lab runs the daemons itself, and ends them again.

As root the lab uses `qemu:///system`, otherwise the user's own `qemu:///session`. Where systemd
runs, its sockets start root's libvirt; anywhere else `ensure` starts virtlogd and libvirtd (or
virtqemud, where the modular daemons are installed).

A daemon writes its own pid file, at a path that is known before it runs, and the path is on its
command line: so a daemon of the lab's is known as such whenever its starter was killed.
"""

from __future__ import annotations

import grp
import os
import shutil
import signal
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.host.locks import locked
from lab.host.processes import ProcessIdentity, identify
from lab.host.state import state_root
from lab.process import run
from lab.progress import Progress

# A daemon without guests or clients ends by itself after this long, should nobody stop it. Long
# enough for an image to be built between `ensure` and the first guest.
IDLE_S = 1800
STOP_S = 10.0
CLOSING_S = 1.0

KVM = Path("/dev/kvm")


@dataclass(frozen=True)
class Daemon:
    program: str
    socket_name: str

    @property
    def socket(self) -> Path:
        return runtime_dir() / self.socket_name

    @property
    def answers(self) -> bool:
        """Whether something accepts connections on the daemon's socket."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1.0)
            try:
                client.connect(os.fspath(self.socket))
            except OSError:
                return False
        return True

    @property
    def path(self) -> str | None:
        """The program; it is in a directory that an ordinary user's PATH may lack."""
        return shutil.which(self.program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


VIRTLOGD = Daemon("virtlogd", "virtlogd-sock")
# In the order in which libvirt's own client prefers them.
HYPERVISORS = (
    Daemon("virtqemud", "virtqemud-sock"),
    Daemon("libvirtd", "libvirt-sock"),
)


def ensure(deadline: Deadline, progress: Progress | None = None) -> str:
    """A libvirt URI that answers, its daemons started if need be; twice is fine.

    The daemons outlive this process. Raises LabError where libvirt is not installed or will not
    start.
    """
    check_runtime_dir()
    with locked(_lock(), "starting libvirt", deadline):
        if (cured := cure_kvm_access()) and progress:
            progress.say(cured)
        hypervisor = next((each for each in HYPERVISORS if each.answers), None)
        if hypervisor and VIRTLOGD.answers:
            return uri_of(hypervisor)
        if os.geteuid() == 0 and Path("/run/systemd/system").is_dir():
            raise LabError(
                "libvirt does not answer, and systemd is in charge of it",
                hint="systemctl start libvirtd.socket virtlogd.socket",
            )
        _start(VIRTLOGD, deadline)
        if not hypervisor:
            hypervisor = next((each for each in HYPERVISORS if each.path), HYPERVISORS[-1])
            _start(hypervisor, deadline)
    return uri_of(hypervisor)


def uri_of(hypervisor: Daemon) -> str:
    """How clients reach `hypervisor`."""
    if os.geteuid() == 0:
        return "qemu:///system"
    # A user's shells may differ in what says where the socket is (XDG_RUNTIME_DIR, which su and
    # cron leave out): it is named, so that all commands on a lab reach the same daemon.
    return f"qemu:///session?socket={hypervisor.socket}"


def runtime_dir() -> Path:
    """Where libvirt keeps its sockets; a user's as g_get_user_runtime_dir(3) finds it."""
    if os.geteuid() == 0:
        return Path("/run/libvirt")
    home = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache") / "libvirt"


def check_runtime_dir() -> None:
    """Raise LabError where libvirt could make no sockets, as in a shell with another's settings."""
    parent = runtime_dir().parent
    named = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() != 0 and named and not os.access(parent, os.W_OK | os.X_OK):
        raise LabError(
            f"XDG_RUNTIME_DIR is {named}, where this user may not write",
            hint="unset XDG_RUNTIME_DIR: libvirt then keeps its sockets below ~/.cache",
        )


def stop_own(state_dir: Path) -> None:
    """End the daemons that the lab started, unless somebody else's guests or clients use them."""
    deadline = Deadline(STOP_S)
    with locked(_lock(), "stopping libvirt", deadline):
        running = own_daemons(state_dir)
        hypervisors = [each for each in running if each is not VIRTLOGD]
        try:
            # A connection that has just been closed is still a connection for a moment.
            deadline.within(CLOSING_S).poll(
                lambda: not any(map(_in_use, hypervisors)), "clients of libvirt to go"
            )
        except DeadlineExceeded:
            return
        # virtlogd last: the others write through it.
        for daemon in sorted(running, key=lambda each: each is VIRTLOGD):
            _stop(running[daemon], deadline)


def own_daemons(state_dir: Path) -> dict[Daemon, ProcessIdentity]:
    """The daemons that run because a lab of this state directory started them."""
    found = {}
    for daemon in (VIRTLOGD, *HYPERVISORS):
        pid_file = _pid_file(daemon, state_dir)
        try:
            pid = int(pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        identity = identify(pid)
        if identity and os.fsencode(pid_file) in command.split(b"\0"):
            found[daemon] = identity
    return found


def cure_kvm_access() -> str | None:
    """Give /dev/kvm to the group kvm, as udev's rule does where udev runs; what was done, if so.

    libvirt asks whether its QEMU user may open /dev/kvm. Where only root may, it takes what it
    learnt about QEMU for stale at every look-up and asks QEMU dozens of times: a guest that
    starts in half a second takes minutes.
    """
    if os.geteuid() != 0 or not (trapped := kvm_trap()):
        return None
    try:
        group = grp.getgrnam("kvm").gr_gid
    except KeyError:
        return f"/dev/kvm is {trapped} and there is no group kvm: libvirt will be slow"
    os.chown(KVM, -1, group)
    KVM.chmod(0o660)
    return f"/dev/kvm was {trapped}: now of group kvm, or libvirt would take minutes for a guest"


def kvm_trap() -> str | None:
    """The owner and mode of a /dev/kvm that springs the trap; None where there is none."""
    try:
        status = KVM.stat()
    except FileNotFoundError:
        return None
    mode = stat.S_IMODE(status.st_mode)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    if mode & 0o006 == 0o006 or (group == "kvm" and mode & 0o060 == 0o060):
        return None
    return f"of group {group} with mode {mode:04o}"


def _lock() -> Path:
    """One for each place of sockets, not for each state directory: the sockets exist once."""
    if os.geteuid() == 0:
        return Path("/run/lock/lab-libvirt.lock")
    return runtime_dir().with_name("lab-libvirt.lock")


def _pid_file(daemon: Daemon, state_dir: Path) -> Path:
    return state_dir / "daemons" / f"{daemon.program}.pid"


def _start(daemon: Daemon, deadline: Deadline) -> None:
    if daemon.answers:
        return
    if not daemon.path:
        raise LabError(f"{daemon.program} is not installed", hint="make setup")
    pid_file = _pid_file(daemon, state_root())
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    # libvirt probes QEMU anew, which takes seconds, when the host's CPUID has changed; CPUID holds
    # the number of the CPU it is read on (leaf 0BH), so the daemon always reads it on the same
    # one. Guests are not bound by that: libvirt gives QEMU every CPU that is online.
    cpu = min(os.sched_getaffinity(0))
    # With --daemon it returns once the socket listens, and keeps none of our files open.
    run(
        [
            "taskset",
            "--cpu-list",
            str(cpu),
            daemon.path,
            "--daemon",
            "--timeout",
            str(IDLE_S),
            "--pid-file",
            pid_file,
        ],
        deadline=deadline,
        hint=f"the end of {_log(daemon)} says why",
    )
    deadline.poll(lambda: daemon.answers, f"{daemon.program} to answer on {daemon.socket}")


def _log(daemon: Daemon) -> str:
    directory = "/var/log" if os.geteuid() == 0 else "~/.cache"
    return f"{directory}/libvirt/{daemon.program}.log"


def _in_use(daemon: Daemon) -> bool:
    """Whether the daemon has clients or guests."""
    # Num RefCount Protocol Flags Type St Inode Path; state 03 is a connection.
    for line in Path("/proc/net/unix").read_text().splitlines():
        words = line.split()
        if words[-1] == os.fspath(daemon.socket) and words[5] == "03":
            return True
    # A running guest's state file; libvirt removes it when the guest ends.
    guests = runtime_dir() / ("qemu" if os.geteuid() == 0 else "qemu/run")
    return any(guests.glob("*.xml"))


def _stop(process: ProcessIdentity, deadline: Deadline) -> None:
    os.kill(process.pid, signal.SIGTERM)
    try:
        deadline.within(STOP_S / 2).poll(lambda: not process.alive, "libvirt to end")
    except DeadlineExceeded:
        os.kill(process.pid, signal.SIGKILL)
        deadline.poll(lambda: not process.alive, f"process {process.pid} to end")
