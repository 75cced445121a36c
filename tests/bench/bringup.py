"""How long a bring-up takes, beside what others need for the same guests on the same host.

Interleaved, in one run: `lab up` of the default topology until both agents answer; the same two
guests by bare qemu-system-x86_64 until both answer ssh; one guest by `lab up`; and virtme-ng's
`vng --exec true` with the same kernel, for scale. Medians and their ratios; every time is kept.

    .venv/bin/python tests/bench/bringup.py [--runs 5]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.bringup import seed_bytes
from lab.deadline import Deadline
from lab.guest.agent_file import agent_bytes
from lab.guest.keys import Keyring
from lab.guest.setup import seed_tree
from lab.plan import GuestPlan, Identity, plan
from lab.preparation import Prepared, prepare
from lab.process import run
from lab.progress import Progress
from lab.providers.libvirt.domain import TCG_CPU, DirectBoot
from lab.providers.storage import create_disks
from lab.teardown import down
from lab.topology.load import load

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LIMIT_S = 300.0
POLL_S = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    if not shutil.which("busybox"):
        raise SystemExit("virtme-ng needs busybox: apt-get install busybox-static")
    prepared = prepare(
        load(ROOT / "topologies/default.yaml"),
        wanted="auto",
        progress=Progress(),
        deadline=Deadline(3600),
    )
    phases: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        one = Path(scratch) / "one.yaml"
        one.write_text(_one_guest())
        kernel = _kernel_for_vng(prepared, Path(scratch))
        sides: dict[str, Callable[[], float]] = {
            "lab up, two guests": lambda: _lab_up(ROOT / "topologies/default.yaml", phases),
            "bare QEMU, two guests": lambda: _bare(prepared, Path(scratch)),
            "lab up, one guest": lambda: _lab_up(one, []),
            "vng --exec true": lambda: _vng(prepared, kernel),
        }
        times: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(runs):
            for side, measure in sides.items():
                times[side].append(measure())
                print(f"run {number + 1}: {side}: {times[side][-1]:.2f} s", flush=True)
    _report(prepared, times, phases)


def _report(
    prepared: Prepared, times: dict[str, list[float]], phases: list[dict[str, dict[str, float]]]
) -> None:
    runs = len(next(iter(times.values())))
    print(f"\n{prepared.machine.accelerator}, {runs} runs a side, interleaved; seconds")
    for side, values in times.items():
        spread = f"{min(values):.2f} .. {max(values):.2f}"
        print(f"  {side:24} median {statistics.median(values):6.2f}   range {spread}")
    for one, other in (
        ("lab up, two guests", "bare QEMU, two guests"),
        ("lab up, one guest", "vng --exec true"),
    ):
        ratio = statistics.median(times[one]) / statistics.median(times[other])
        print(f"  {one} / {other}: {ratio:.2f}")
    print("phases of `lab up`, two guests, medians:")
    for guest in phases[0]:
        medians = {
            phase: statistics.median(each[guest][phase] for each in phases)
            for phase in phases[0][guest]
        }
        print(f"  {guest:8}" + "".join(f"  {phase} {s:.2f}" for phase, s in medians.items()))


def _lab_up(topology: Path, phases: list[dict[str, dict[str, float]]]) -> float:
    start_s = time.monotonic()
    up = [BIN / "lab", "up", topology, "--name", "bench"]
    subprocess.run(up, check=True, capture_output=True, timeout=LIMIT_S, cwd=ROOT)
    took_s = time.monotonic() - start_s
    status = subprocess.run(
        [BIN / "lab", "status", "--json"], check=True, capture_output=True, timeout=LIMIT_S
    )
    lab = next(each for each in json.loads(status.stdout)["labs"] if each["name"] == "bench")
    phases.append({name: guest["phases_s"] for name, guest in lab["guests"].items()})
    down("bench")
    return took_s


def _bare(prepared: Prepared, scratch: Path) -> float:
    """Two QEMUs on the lab's images, disks and seeds, made before the clock starts."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    lab = plan(prepared.loaded.topology, Identity("bare", "ffffff", 255), folder)
    guests = list(lab.guests.values())
    keyring = Keyring(folder / "keys")
    login, host_keys = keyring.create(guests)
    for guest in guests:
        guest.directory.mkdir(parents=True)
        create_disks(guest, prepared.images[guest.name], Deadline(LIMIT_S))
        keys = host_keys[guest.name]
        tree = seed_tree(
            guest,
            lab,
            host_key=keys.private,
            host_public_key=keys.public,
            authorized_key=login.public,
            agent=agent_bytes(),
        )
        kernel = prepared.kernels[guest.name]
        guest.seed.write_bytes(seed_bytes(guest, kernel, tree))
    with ExitStack() as stack:
        start_s = time.monotonic()
        for guest in guests:
            stack.enter_context(_qemu(guest, prepared))
        waiting = guests
        while waiting:
            if time.monotonic() - start_s > LIMIT_S:
                raise SystemExit(f"bare QEMU: {[g.name for g in waiting]} never answered ssh")
            waiting = [guest for guest in waiting if not _answers(guest, keyring)]
            time.sleep(POLL_S if waiting else 0)
        took_s = time.monotonic() - start_s
    shutil.rmtree(folder)
    return took_s


@contextmanager
def _qemu(guest: GuestPlan, prepared: Prepared) -> Iterator[None]:
    boot = prepared.boot(guest.name, guest.management_mac, guest.seed)
    assert isinstance(boot, DirectBoot)
    kvm = prepared.machine.accelerator == "kvm"
    argv = [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "q35", "-accel", "kvm" if kvm else "tcg,thread=multi",
        "-cpu", "host" if kvm else TCG_CPU,
        "-smp", str(guest.spec.vcpus), "-m", f"{guest.spec.memory // 1024**2}M",
        "-kernel", boot.kernel, "-initrd", boot.initrd, "-append", " ".join(boot.cmdline),
        "-serial", f"file:{guest.console_log}",
        "-device", "virtio-rng-pci", "-device", "pvpanic", "-device", "virtio-serial-pci",
        "-netdev", f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{guest.ssh_port}-:22",
        "-device", f"virtio-net-pci,netdev=management,mac={guest.management_mac},romfile=",
    ]  # fmt: skip
    for disk in guest.disks:
        argv += [
            "-object", f"iothread,id=io{disk.hba}",
            "-device", f"virtio-scsi-pci,id=hba{disk.hba},iothread=io{disk.hba}",
            "-drive",
            f"file={disk.path},format={disk.path.suffix[1:]},if=none,id={disk.serial},"
            f"cache={disk.spec.cache},aio={disk.spec.aio}",
            "-device", f"scsi-hd,bus=hba{disk.hba}.0,drive={disk.serial},serial={disk.serial}",
        ]  # fmt: skip
    for nic in guest.nics:
        assert nic.sockets
        local, remote = nic.sockets
        argv += [
            "-netdev",
            f"dgram,id={nic.name},local.type=unix,local.path={local},"
            f"remote.type=unix,remote.path={remote}",
            "-device",
            f"virtio-net-pci,netdev={nic.name},mac={nic.mac},host_mtu={nic.mtu},romfile=",
        ]  # fmt: skip
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *argv])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _answers(guest: GuestPlan, keyring: Keyring) -> bool:
    ssh = [
        "ssh", "-i", keyring.login_key, "-p", str(guest.ssh_port), "-o", "BatchMode=yes",
        "-o", f"UserKnownHostsFile={keyring.known_hosts}", "-o", "ConnectTimeout=10",
        "-o", "KexAlgorithms=curve25519-sha256", "root@127.0.0.1", "true",
    ]  # fmt: skip
    return subprocess.run(ssh, capture_output=True, check=False).returncode == 0


def _kernel_for_vng(prepared: Prepared, scratch: Path) -> Path:
    """The image's own kernel and modules, laid out as in a root file system.

    It gets the uncompressed kernel that the lab boots, too: a bzImage costs it seconds more.
    """
    image, kernel = next(
        (prepared.images[name], kernel) for name, kernel in prepared.kernels.items() if kernel
    )
    tree = scratch / "vng"
    (tree / "boot").mkdir(parents=True)
    (tree / "lib/modules").mkdir(parents=True)
    modules = f"rdump /usr/lib/modules/{kernel.release} {tree}/lib/modules"
    run(["debugfs", "-R", modules, image.root], deadline=Deadline(LIMIT_S))
    return shutil.copy(kernel.vmlinux, tree / f"boot/vmlinuz-{kernel.release}")


def _vng(prepared: Prepared, kernel: Path) -> float:
    vng = [BIN / "vng", "--run", kernel, "--exec", "true"]
    if prepared.machine.accelerator == "tcg":
        vng.append("--disable-kvm")
    start_s = time.monotonic()
    path = f"{BIN}:{os.environ['PATH']}:/usr/sbin:/sbin"
    done = run(vng, deadline=Deadline(LIMIT_S), cwd=ROOT, env={"PATH": path}, check=False)
    # 255: the command ran, but without udev on the host its exit status has no way back.
    if done.returncode not in (0, 255):
        raise SystemExit(f"vng exited with status {done.returncode}: {done.stderr}")
    return time.monotonic() - start_s


def _one_guest() -> str:
    text = (ROOT / "topologies/default.yaml").read_text()
    return text.replace("  server: *guest\n", "").replace("name: default", "name: one")


if __name__ == "__main__":
    main()
