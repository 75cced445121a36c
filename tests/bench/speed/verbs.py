"""QP transitions: the agent's sync/sync cell beside a loop of ibv_modify_qp in C."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.deadline import Deadline
from lab.errors import LabError
from lab.process import run
from lab.running import RunningGuest, RunningLab
from lab.workload import run_workload
from tests.bench.speed.common import Row

SOURCE = Path(__file__).with_name("modify_loop.c")
HEADER = Path("/usr/include/infiniband/verbs.h")
PACKAGE = "libibverbs-dev"
PROGRAM = "/tmp/modify_loop"
DEVICE = "rxe0"
QPS = 4000
# Of the guests' Debian 12; a newer host must not link to what they do not have.
GUEST_GLIBC = (2, 36)
BUILD_S = 300.0


def ours(lab: RunningLab, deadline: Deadline) -> float:
    given = {"preset": "sync_sync", "qps": QPS, "device": DEVICE, "null_s": 0.1}
    result = run_workload(lab, "verbs", given, deadline=deadline)
    if failures := result["failures"].value:
        raise LabError(f"{failures:g} transitions failed")
    return result["qps"].value


def theirs(lab: RunningLab, deadline: Deadline) -> float:
    guest = next(iter(lab.guests.values()))
    _install(guest)
    with guest.agent() as agent:
        gids = agent.hello(deadline).facts["rdma"][DEVICE]["gids"]
    index = next(gid["index"] for gid in gids if gid["type"] == "RoCE v2" and gid["address"])
    done = guest.session().run(f"{PROGRAM} {DEVICE} {index} {QPS}", deadline=deadline)
    if done.returncode != 0:
        raise LabError(f"modify_loop failed: {done.stderr.strip()}", where=f"guest {guest.name}")
    elapsed_s, right = done.stdout.split()
    if int(right) != QPS:
        raise LabError(f"only {right} of {QPS} queue pairs of the C loop are in ERR")
    return QPS / float(elapsed_s)


def _install(guest: RunningGuest) -> None:
    with guest.session().sftp() as sftp, sftp.open(PROGRAM, "w") as file:
        file.write(program())
        file.chmod(0o755)


@functools.cache
def program() -> bytes:
    """The C loop, compiled on this host for the guests."""
    deadline = Deadline(BUILD_S)
    if not HEADER.exists():
        if os.geteuid() != 0:
            raise LabError(
                f"{HEADER} is missing, which the C side is compiled with",
                hint=f"as root: apt-get install {PACKAGE}",
            )
        print(f"{HEADER} is missing: installing {PACKAGE}", flush=True)
        run(["apt-get", "install", "-y", "--no-install-recommends", PACKAGE], deadline=deadline)
    with TemporaryDirectory(prefix="modify-loop-") as directory:
        path = Path(directory) / "modify_loop"
        # A standard without GNU's extensions: glibc 2.38 renames strtoul under these.
        standard = ["-std=c11", "-D_POSIX_C_SOURCE=200809L"]
        run(
            ["gcc", *standard, "-O2", "-Wall", "-Werror", "-o", path, SOURCE, "-libverbs"],
            deadline=deadline,
        )
        needed = run(["objdump", "-T", path], deadline=deadline).stdout
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", needed)
        newest = max((int(major), int(minor)) for major, minor in versions)
        if newest > GUEST_GLIBC:
            raise LabError(f"this host's glibc made modify_loop need version {newest}")
        return path.read_bytes()


ROWS = (
    Row(
        "QP transitions sync/sync, against a C loop of ibv_modify_qp",
        "QPs/s",
        0.7,
        ours,
        theirs,
        topology="winverbs-qp-modify.yaml",
    ),
)
