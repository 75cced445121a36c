"""Seeds: the kernel and cloud-init must read back what went in."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from pathlib import Path

import pycdlib
import pytest
import yaml

from lab.images.seed import (
    CHARACTER_DEVICE,
    SYMLINK,
    CpioEntry,
    SeedFile,
    StaticNic,
    cpio,
    newc_cpio,
    nocloud_iso,
)

TREE = {
    "/etc/hostname": SeedFile(0o644, b"client\n"),
    "/etc/ssh/key": SeedFile(0o600, bytes(range(256))),
    "/empty": SeedFile(0o755, b""),
}


def test_same_tree_same_bytes() -> None:
    backwards = dict(reversed(TREE.items()))
    assert newc_cpio(TREE) == newc_cpio(backwards)


def test_archives_can_be_concatenated() -> None:
    assert len(newc_cpio(TREE)) % 4 == 0
    assert newc_cpio(TREE).startswith(b"070701")


@pytest.mark.skipif(not shutil.which("cpio"), reason="needs cpio")
def test_cpio_unpacks_it(tmp_path: Path) -> None:
    subprocess.run(["cpio", "-idm", "--quiet"], input=newc_cpio(TREE), cwd=tmp_path, check=True)
    for path, file in TREE.items():
        unpacked = tmp_path / "seed" / path[1:]
        assert unpacked.read_bytes() == file.data
        assert unpacked.stat().st_mode & 0o7777 == file.mode
    assert (tmp_path / "seed/etc").stat().st_mode & 0o777 == 0o755


def members(archive: bytes) -> dict[str, tuple[int, bytes, tuple[int, int]]]:
    """An independent reader: name -> mode, data, device."""
    found = {}
    at = 0
    while True:
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name_end = at + 110 + fields[11]
        name = archive[at + 110 : name_end - 1].decode()
        start = (name_end + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (fields[1], archive[start : start + fields[6]], (fields[9], fields[10]))
        at = (start + fields[6] + 3) // 4 * 4


def test_parents_come_before_their_children() -> None:
    names = list(members(newc_cpio({"/a/b/c": SeedFile(0o600, b"x")})))
    assert names == ["seed", "seed/a", "seed/a/b", "seed/a/b/c"]


def test_links_and_devices() -> None:
    archive = cpio(
        [
            CpioEntry("bin/sh", SYMLINK | 0o777, b"busybox"),
            CpioEntry("dev/console", CHARACTER_DEVICE | 0o600, device=(5, 1)),
        ]
    )
    found = members(archive)
    assert found["bin/sh"][:2] == (0o120777, b"busybox")
    assert found["dev/console"] == (0o020600, b"", (5, 1))


@pytest.mark.parametrize("path", ["etc/hostname", "/", "/a//b", "/a/../b", ""])
def test_paths_must_be_absolute_and_normal(path: str) -> None:
    with pytest.raises(ValueError, match="absolute"):
        newc_cpio({path: SeedFile(0o644, b"")})


def read_back(data: bytes, name: str) -> str:
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(data))
    assert iso.pvd.volume_identifier.decode().strip().lower() == "cidata"
    out = io.BytesIO()
    iso.get_file_from_iso_fp(out, rr_path=f"/{name}")
    return out.getvalue().decode()


def test_cloud_init_finds_the_same_tree() -> None:
    data = nocloud_iso(
        TREE,
        instance_id="lab-1",
        hostname="client",
        nics=[
            StaticNic("management", "52:54:00:00:00:01", "10.0.2.15/24", awaited=True),
            StaticNic("lan0", "52:54:00:00:00:02", "10.64.0.1/24", mtu=9000),
        ],
    )

    def read(name: str) -> str:
        return read_back(data, name)

    user_data = read("user-data")
    assert user_data.startswith("#cloud-config\n")
    fields = yaml.safe_load(user_data)
    written = {
        each["path"]: SeedFile(int(each["permissions"], 8), base64.b64decode(each["content"]))
        for each in fields["write_files"]
    }
    assert written == TREE
    assert yaml.safe_load(read("meta-data"))["instance-id"] == "lab-1"
    management, data = yaml.safe_load(read("network-config"))["ethernets"].values()
    assert management["match"] == {"macaddress": "52:54:00:00:00:01"}
    assert management["addresses"] == ["10.0.2.15/24"]
    assert "mtu" not in management
    assert (management["optional"], data["optional"]) == (False, True)
    assert (data["set-name"], data["mtu"]) == ("lan0", 9000)
    assert not any(each["dhcp4"] for each in (management, data)), "nobody answers, and boot waits"


def test_cloud_init_leaves_alone_what_the_seed_brings() -> None:
    nics = [StaticNic("management", "52:54:00:00:00:01", "10.0.2.15/24")]
    iso = nocloud_iso(TREE, instance_id="i", hostname="h", nics=nics)
    fields = yaml.safe_load(read_back(iso, "user-data"))
    assert fields["manage_etc_hosts"] is False
    assert fields["ssh_deletekeys"] is False
    # cloud-init's schema refuses an empty list, and generates every type without one.
    assert fields["ssh_genkeytypes"] == ["ed25519"]


def test_its_networks_come_before_those_of_the_image() -> None:
    iso = nocloud_iso(
        {},
        instance_id="i",
        hostname="h",
        nics=[StaticNic("wan", "52:54:00:00:00:01", "10.0.2.15/24")],
    )
    key = next(iter(yaml.safe_load(read_back(iso, "network-config"))["ethernets"]))
    assert key < "all-en"
