"""What makes one guest of an image: credentials, names and the script that sets its devices up.

Pure: a guest's plan in, a tree of files out (see lab.images.seed for how it gets there).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lab.images.seed import FileTree, SeedFile
from lab.plan import GuestPlan, LabPlan, NicPlan

AGENT_PATH = "/usr/local/bin/datapath-agent"
SETUP_PATH = "/etc/lab/setup.sh"
READY_PATH = "/run/lab/ready"
SETUP_LOG_PATH = "/run/lab/setup.log"

# What lab-setup.service does in the lab's own images; the console may be silent in others.
SETUP_UNDER_CLOUD_INIT = f"""\
#!/bin/sh
mkdir -p /run/lab
{SETUP_PATH} > {SETUP_LOG_PATH} 2>&1 && : > {READY_PATH}
"""


def seed_tree(
    guest: GuestPlan,
    lab: LabPlan,
    *,
    host_key: bytes,
    host_public_key: str,
    authorized_key: str,
    agent: bytes,
) -> FileTree:
    """The files of `guest`; keys in OpenSSH's formats, `agent` the one-file agent."""
    return {
        "/etc/hostname": _text(guest.name + "\n"),
        "/etc/hosts": _text("".join(f"{line}\n" for line in _hosts(lab))),
        "/etc/ssh/ssh_host_ed25519_key": SeedFile(0o600, host_key),
        "/etc/ssh/ssh_host_ed25519_key.pub": _text(host_public_key + "\n"),
        "/root/.ssh/authorized_keys": SeedFile(0o600, authorized_key.encode() + b"\n"),
        AGENT_PATH: SeedFile(0o755, agent),
        SETUP_PATH: SeedFile(0o755, setup_script(guest).encode()),
    }


def _text(text: str) -> SeedFile:
    return SeedFile(0o644, text.encode())


def _hosts(lab: LabPlan) -> Iterator[str]:
    yield "127.0.0.1 localhost"
    yield "::1 localhost"
    for guest in lab.guests.values():
        for nic in guest.nics:
            # A guest's own name is its first data address, as its peers see it.
            names = (
                f"{guest.name} {guest.name}-{nic.name}"
                if nic is guest.nics[0]
                else (f"{guest.name}-{nic.name}")
            )
            yield f"{nic.address.ip} {names}"


def setup_script(guest: GuestPlan) -> str:
    """A POSIX shell script that names, addresses and tunes the data NICs and adds RDMA devices.

    NICs are found by MAC: their order in the guest depends on driver and bus. Devices the kernel
    lists in PCI order are there before the script runs; e1000e is loaded by it.
    """
    lines = ["#!/bin/sh", "set -eu"]
    if modules := sorted(set(_modules(guest))):
        lines.append(f"modprobe -a {' '.join(modules)}")
    if guest.nics:
        lines += [
            # Built-ins only: under TCG each process costs a tenth of a second.
            "nic_by_mac() {",
            "    for each in /sys/class/net/*; do",
            '        read -r address < "$each/address"',
            '        if [ "$address" = "$1" ]; then dev=${each##*/}; return; fi',
            "    done",
            '    echo "no NIC has the address $1" >&2',
            "    return 1",
            "}",
        ]
    for nic in guest.nics:
        lines += _nic(guest, nic)
    return "\n".join(lines) + "\n"


def _modules(guest: GuestPlan) -> Iterator[str]:
    for nic in guest.spec.nics.values():
        if nic.model != "virtio":
            yield nic.model
    for rdma in guest.spec.rdma.values():
        yield "rdma_rxe" if rdma.model == "rxe" else "siw"
        # For user space; udev, which loads them elsewhere, starts after this script.
        yield from ("ib_uverbs", "rdma_ucm")


def _nic(guest: GuestPlan, nic: NicPlan) -> Iterable[str]:
    spec = guest.spec.nics[nic.name]
    yield f"nic_by_mac {nic.mac}"
    features = {"tso": spec.tso, "gso": spec.gso, "tx": spec.checksum}
    off = " ".join(f"{feature} off" for feature, wanted in features.items() if not wanted)
    if off:
        yield f'ethtool -K "$dev" {off}'
    if spec.queues > 1:
        yield f'ethtool -L "$dev" combined {spec.queues}'
    # A ready-made image may have named, addressed and started it already, and a NIC that is up
    # keeps its name before Linux 6.2.
    yield f'rename=; [ "$dev" = {nic.name} ] || rename="link set $dev down'
    yield f'link set $dev name {nic.name}"'
    yield "ip -batch - <<END"
    yield "$rename"
    yield f"link set {nic.name} mtu {nic.mtu}"
    yield f"address replace {nic.address} dev {nic.name}"
    yield f"link set {nic.name} up"
    yield "END"
    for name, rdma in guest.rdma_on(nic.name).items():
        yield f"rdma link add {name} type {rdma.model} netdev {nic.name}"
