"""libvirt's daemons for real, on a /run and in namespaces of the test's own: needs root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.host import libvirt_daemon
from lab.host.libvirt_daemon import HYPERVISORS

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the system daemons")
needs_libvirt = pytest.mark.skipif(
    os.geteuid() != 0 or not any(each.path for each in HYPERVISORS),
    reason="needs root and an installed libvirt",
)

PRELUDE = '''
import json, os, signal, subprocess, sys, time
from pathlib import Path
import libvirt, psutil
from lab.deadline import Deadline
from lab.host import libvirt_daemon
from lab.host.libvirt_daemon import HYPERVISORS, VIRTLOGD, ensure, own_daemons, stop_own
STATE = Path(os.environ["LAB_STATE_DIR"])
def names():
    # A daemon's intermediate processes live on for a moment: look until two looks agree.
    before, now = None, seen()
    while before != now:
        time.sleep(0.1)
        before, now = now, seen()
    return now
def seen():
    return sorted(
        process.name() for process in psutil.process_iter()
        if process.name() in ("libvirtd", "virtqemud", "virtlogd")
        and process.status() != psutil.STATUS_ZOMBIE
    )
def answering():
    return [daemon.program for daemon in (VIRTLOGD, *HYPERVISORS) if daemon.answers]
START = """
from lab.deadline import Deadline
from lab.host.libvirt_daemon import ensure
ensure(Deadline(20))
"""
START_AND_BE_KILLED = """
import os, signal
from lab.deadline import Deadline
from lab.host import libvirt_daemon
start = libvirt_daemon._start
def killed(*arguments):
    start(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
libvirt_daemon._start = killed
libvirt_daemon.ensure(Deadline(20))
"""
'''


def isolated(script: str, state: Path) -> Any:
    """What `script` prints as JSON, run where no libvirt is; whatever it starts ends with it."""
    namespaces = ["--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    inner = 'mount -t tmpfs run /run && mkdir /run/lock && exec "$0" -c "$1"'
    done = subprocess.run(
        [
            "unshare",
            *namespaces,
            "sh",
            "-c",
            inner,
            sys.executable,
            PRELUDE + textwrap.dedent(script),
        ],
        env={**os.environ, "LAB_STATE_DIR": str(state)},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@needs_libvirt
def test_daemons_start_answer_and_end_without_a_trace(tmp_path: Path) -> None:
    script = """
        uri = ensure(Deadline(20))
        started = names()
        assert ensure(Deadline(20)) == uri and names() == started
        connection = libvirt.open(uri)
        domains = len(connection.listAllDomains())
        connection.close()
        stop_own(STATE)
        left = names(), answering(), len(own_daemons(STATE))
        print(json.dumps([uri, len(started), domains, *left]))
    """
    assert isolated(script, tmp_path) == ["qemu:///system", 2, 0, [], [], 0]


@needs_libvirt
def test_daemons_outlive_their_starter_and_hold_nothing_of_it(tmp_path: Path) -> None:
    # The pipes of a starter that left them to a daemon would stay open, and run() would wait.
    script = """
        done = subprocess.run(
            [sys.executable, "-c", START],
            capture_output=True, timeout=20, check=True, start_new_session=True,
        )
        print(json.dumps(len(names())))
    """
    assert isolated(script, tmp_path) == 2


@needs_libvirt
def test_two_at_once_start_one_of_each(tmp_path: Path) -> None:
    script = """
        both = [subprocess.Popen([sys.executable, "-c", START]) for _ in "ab"]
        codes = [each.wait() for each in both]
        print(json.dumps([codes, len(names()), len(own_daemons(STATE))]))
    """
    assert isolated(script, tmp_path) == [[0, 0], 2, 2]


@needs_libvirt
def test_a_starter_killed_midway_leaves_nothing_that_cannot_be_found(tmp_path: Path) -> None:
    script = """
        code = subprocess.run([sys.executable, "-c", START_AND_BE_KILLED]).returncode
        left = names(), len(own_daemons(STATE))
        libvirt.open(ensure(Deadline(20))).close()
        stop_own(STATE)
        print(json.dumps([code, *left, names()]))
    """
    assert isolated(script, tmp_path) == [-9, ["virtlogd"], 1, []]


@needs_libvirt
def test_a_daemon_that_has_died_is_started_again(tmp_path: Path) -> None:
    script = """
        ensure(Deadline(20))
        before = names()
        victim = own_daemons(STATE)[VIRTLOGD]
        os.kill(victim.pid, signal.SIGKILL)
        Deadline(5).poll(lambda: not victim.alive, "virtlogd to die")
        ensure(Deadline(20))
        print(json.dumps(names() == before))
    """
    assert isolated(script, tmp_path)


@needs_libvirt
def test_daemons_in_use_are_left_alone(tmp_path: Path) -> None:
    script = """
        connection = libvirt.open(ensure(Deadline(20)))
        stop_own(STATE)
        kept = len(names())
        connection.close()
        stop_own(STATE)
        print(json.dumps([kept, names()]))
    """
    assert isolated(script, tmp_path) == [2, []]


@needs_libvirt
def test_daemons_that_others_started_are_used_and_left_alone(tmp_path: Path) -> None:
    script = """
        ensure(Deadline(20))
        stop_own(STATE / "another")
        (STATE / "daemons").rename(STATE / "moved")
        ensure(Deadline(20))
        stop_own(STATE)
        print(json.dumps(len(names())))
    """
    assert isolated(script, tmp_path) == 2


@needs_libvirt
def test_a_daemon_that_will_not_start_says_why(tmp_path: Path) -> None:
    script = """
        from lab.errors import LabError
        STATE.joinpath("daemons").mkdir()
        STATE.joinpath("daemons/virtlogd.pid").mkdir()
        try:
            ensure(Deadline(20))
        except LabError as error:
            print(json.dumps(str(error)))
    """
    said = isolated(script, tmp_path)
    assert "virtlogd" in said and "exited with status" in said and "pid" in said


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user, of whose session nothing is known."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


@pytest.mark.usefixtures("as_user")
def test_a_users_daemon_is_named_by_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = libvirt_daemon.uri_of(HYPERVISORS[-1])
    assert uri == "qemu:///session?socket=/home/ada/.cache/libvirt/libvirt-sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    uri = libvirt_daemon.uri_of(HYPERVISORS[-1])
    assert uri == "qemu:///session?socket=/run/user/1000/libvirt/libvirt-sock"


@pytest.mark.usefixtures("as_user")
def test_another_users_runtime_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libvirt_daemon.check_runtime_dir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    libvirt_daemon.check_runtime_dir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
    with pytest.raises(LabError, match="XDG_RUNTIME_DIR") as refused:
        libvirt_daemon.check_runtime_dir()
    assert refused.value.hint and "unset XDG_RUNTIME_DIR" in refused.value.hint


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_the_probing_trap_is_sprung_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    kvm = tmp_path / "kvm"
    kvm.touch(mode)
    monkeypatch.setattr(libvirt_daemon, "KVM", kvm)
    try:
        shutil.chown(tmp_path / "kvm", group="kvm")
    except LookupError:
        pytest.skip("no group kvm here")
    os.chown(kvm, 0, 0)
    kvm.chmod(mode)
    done = libvirt_daemon.cure_kvm_access()
    assert done and f"of group root with mode {mode:04o}" in done
    assert kvm.group() == "kvm" and kvm.stat().st_mode & 0o777 == 0o660
    assert libvirt_daemon.cure_kvm_access() is None


@needs_root
def test_a_kvm_that_everyone_may_open_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kvm = tmp_path / "kvm"
    kvm.touch()
    kvm.chmod(0o666)
    monkeypatch.setattr(libvirt_daemon, "KVM", kvm)
    assert libvirt_daemon.cure_kvm_access() is None
    monkeypatch.setattr(libvirt_daemon, "KVM", tmp_path / "absent")
    assert libvirt_daemon.cure_kvm_access() is None
