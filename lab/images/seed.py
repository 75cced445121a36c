"""What makes one guest of an image: a tree of files, carried by a cpio archive or a NoCloud ISO.

Pure renderers: the same tree always gives the same bytes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pycdlib
import yaml


@dataclass(frozen=True)
class SeedFile:
    """A regular file, owned by root. `mode` holds the permission bits only."""

    mode: int
    data: bytes


FileTree = Mapping[str, SeedFile]
"""Absolute path in the guest -> file."""


@dataclass(frozen=True)
class CpioEntry:
    """One member of an archive: `mode` with its type bits, `device` for character devices."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


DIRECTORY = 0o040000
REGULAR = 0o100000
SYMLINK = 0o120000
CHARACTER_DEVICE = 0o020000


def newc_cpio(tree: FileTree, prefix: str = "seed") -> bytes:
    """`tree` under /`prefix` as a cpio archive that the kernel unpacks into its initramfs."""
    return cpio(
        CpioEntry(f"{prefix}/{_relative(path)}", REGULAR | file.mode, file.data)
        for path, file in tree.items()
    )


def cpio(entries: Iterable[CpioEntry]) -> bytes:
    """A "newc" archive of `entries` and the directories above them, sorted, without times."""
    members = {entry.name: entry for entry in entries}
    for name in list(members):
        for parent in _parents(name):
            members.setdefault(parent, CpioEntry(parent, DIRECTORY | 0o755))
    records = [_record(number, members[name]) for number, name in enumerate(sorted(members), 1)]
    return b"".join(records) + _record(0, CpioEntry("TRAILER!!!", 0))


def _record(number: int, entry: CpioEntry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if entry.mode & 0o170000 == DIRECTORY else 1
    fields = (
        number, entry.mode, 0, 0, links, 0, len(entry.data),
        0, 0, *entry.device, len(name), 0,
    )  # fmt: skip
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _relative(path: str) -> str:
    parts = path.split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        raise ValueError(f"{path!r} is not an absolute, normal path")
    return path[1:]


@dataclass(frozen=True)
class StaticNic:
    """A NIC by its MAC: the name, the address (with its prefix length) and the MTU it gets.

    Boot waits for a NIC that is `awaited`. One has to be: networkd waits in vain for none.
    """

    name: str
    mac: str
    address: str
    mtu: int | None = None
    awaited: bool = False


# cloud-init runs what is here near the end of each boot, as root.
PER_BOOT_SCRIPT = "/var/lib/cloud/scripts/per-boot/lab"


def nocloud_iso(
    tree: FileTree, *, instance_id: str, hostname: str, nics: Iterable[StaticNic]
) -> bytes:
    """A "cidata" ISO that makes cloud-init write `tree` and name and address `nics`."""
    user_data = {
        "hostname": hostname,
        # The seed has its own; many an image makes it from a template at each boot.
        "manage_etc_hosts": False,
        "disable_root": False,
        # The seed carries the guest's host key; cloud-init must neither delete it nor add any,
        # and a key that is there is not generated.
        "ssh_deletekeys": False,
        "ssh_genkeytypes": ["ed25519"],
        "write_files": [
            {
                "path": path,
                "permissions": f"{file.mode:04o}",
                "encoding": "b64",
                "content": base64.b64encode(file.data).decode(),
            }
            for path, file in sorted(tree.items())
        ],
    }
    # Of all files that match a NIC, systemd-networkd takes the first by name, which netplan makes
    # of the key; many an image brings one called all-en, which waits for DHCP on every NIC.
    ethernets = {f"0-{nic.name}": _ethernet(nic) for nic in nics}
    network = {"version": 2, "ethernets": ethernets}
    meta_data = {"instance-id": instance_id, "local-hostname": hostname}
    return _iso(
        {
            "user-data": "#cloud-config\n" + yaml.safe_dump(user_data, sort_keys=False),
            "meta-data": yaml.safe_dump(meta_data, sort_keys=False),
            "network-config": yaml.safe_dump(network, sort_keys=False),
        }
    )


def _ethernet(nic: StaticNic) -> dict[str, object]:
    """A NIC in netplan's words."""
    return {
        "match": {"macaddress": nic.mac},
        # Without a name of ours, images that do without netplan look for one called by the key.
        "set-name": nic.name,
        "addresses": [nic.address],
        "dhcp4": False,
        "optional": not nic.awaited,
        **({"mtu": nic.mtu} if nic.mtu else {}),
    }


def _iso(files: Mapping[str, str]) -> bytes:
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident="cidata")
    for number, (name, text) in enumerate(files.items()):
        data = text.encode()
        iso.add_fp(
            io.BytesIO(data),
            len(data),
            f"/FILE{number}.;1",
            rr_name=name,
            joliet_path=f"/{name}",
        )
    out = io.BytesIO()
    iso.write_fp(out)
    iso.close()
    return out.getvalue()
