"""An ordinary user's lab, on a host that root has prepared: up, in use, gone without trace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.e2e.support import COMMAND_S, LAB, ROOT, lab_command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")

# The user `nobody`, whom every host has.
UID = 65534
# Neither groups nor privileges; but it may read what lies below a closed home directory, as this
# tree and its Python may.
AS_USER = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
AS_USER += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search", "--"]

PAIR = """\
name: rootless
guests:
  a: &guest
    memory: 384MiB
    nics:
      lan0: {segment: lan}
  b: *guest
segments:
  lan: {mtu: 9000}
"""


class User:
    """Runs `lab` as an ordinary user, with a home of their own and no XDG_RUNTIME_DIR."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.topology = home / "pair.yaml"
        self.topology.write_text(PAIR)
        path = f"{os.environ['PATH']}:/usr/sbin"
        self._env = {"HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8"}

    def lab(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*AS_USER, LAB, *words],
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    def start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*AS_USER, LAB, *words], cwd=ROOT, env=self._env)

    def traces(self) -> set[str]:
        """Processes, sockets and files of labs: an ordinary user can leave nothing else."""
        found = {str(path) for path in self.home.rglob("*") if path.is_socket()}
        found |= {str(path) for path in self.home.rglob("*lab-rootless*")}
        found |= {str(path) for path in self.home.glob(".local/share/lab/labs/*")}
        for process in psutil.process_iter(["uids", "status", "cmdline"]):
            if process.info["uids"].real == UID and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.add(f"{process.pid} {process.info['cmdline']}")
        return found


@pytest.fixture
def user() -> Iterator[User]:
    if subprocess.run([*AS_USER, "true"], check=False).returncode != 0:
        pytest.skip("this root may not hand on CAP_DAC_READ_SEARCH")
    built = lab_command("image", "build", "debian-12")
    assert built.returncode == 0, built.stderr
    # Not below pytest's own directory, which others may not enter; short, as a home is.
    with TemporaryDirectory(dir="/var/tmp", prefix="lab-user-") as directory:
        home = Path(directory)
        user = User(home)
        for path in (home, user.topology):
            shutil.chown(path, UID, UID)
        yield user
        user.lab("down", "--all")


def test_a_pair_of_guests_without_root(user: User) -> None:
    up = user.lab("up", user.topology)
    assert up.returncode == 0, up.stderr
    assert "running" in user.lab("status").stdout
    # A whole jumbo frame each way: 9000 bytes less IPv4's and ICMP's headers.
    for one, other in (("a", "b"), ("b", "a")):
        ping = user.lab("exec", one, "--", "ping", "-c", "2", "-M", "do", "-s", "8972", other)
        assert ping.returncode == 0, ping.stdout + ping.stderr
        assert " 0% packet loss" in ping.stdout
    down = user.lab("down")
    assert (down.returncode, down.stdout) == (0, "lab rootless is down\n"), down.stderr
    assert user.traces() == set()

    # Killed with its guests under way, and its libvirt with it.
    killed = user.start("up", user.topology)
    time.sleep(4)
    killed.kill()
    killed.wait()
    assert user.traces()
    for process in psutil.process_iter(["uids", "name"]):
        if process.info["uids"].real == UID and process.info["name"] in ("libvirtd", "virtqemud"):
            process.send_signal(signal.SIGKILL)
    reaped = user.lab("reap")
    assert reaped.stdout.startswith("reaped rootless: "), reaped.stderr
    assert user.traces() == set()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("  lan: {mtu: 9000}", "  lan: {mtu: 9000, rate: 1Gbit}", 9),
        ("  b: *guest\n", "", 8),
        ("{segment: lan}", "{segment: lan, queues: 2}", 6),
    ],
    ids=["rate", "one NIC", "queues"],
)
def test_what_sockets_cannot_do_is_refused(user: User, old: str, new: str, line: int) -> None:
    text = user.topology.read_text().replace(old, new).replace("memory:", "vcpus: 2\n    memory:")
    user.topology.write_text(text)
    refused = user.lab("up", user.topology)
    assert refused.returncode == 2, refused.stderr
    # The line of the file before a line of vCPUs was added.
    assert f"{user.topology}:{line + 1}: " in refused.stderr
    assert "root" in refused.stderr
    user.lab("reap")
    assert user.traces() == set()
