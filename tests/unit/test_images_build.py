"""Building images: kernels, initramfs and progress, from made-up inputs."""

from __future__ import annotations

import lzma
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.images.bootstrap import bootstrap_argv, notes
from lab.images.initramfs import init_script, initramfs, load_order
from lab.images.kernel import vmlinux_of
from lab.images.recipe import DebianRecipe, load_recipe

ELF = b"\x7fELF" + bytes(5000)


def bzimage(payload: bytes) -> bytes:
    """A boot sector, two setup sectors, 100 bytes of decompressor, `payload`, and a tail."""
    head = bytearray(3 * 512)
    head[0x1F1] = 2
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 100, len(payload))
    return bytes(head) + bytes(100) + payload + b"tail"


def test_an_xz_kernel_is_unpacked() -> None:
    assert vmlinux_of(bzimage(lzma.compress(ELF) + struct.pack("<I", len(ELF)))) == ELF


@pytest.mark.skipif(not shutil.which("zstd"), reason="needs zstd")
def test_a_zstd_kernel_is_unpacked() -> None:
    packed = subprocess.run(["zstd", "-c"], input=ELF, capture_output=True, check=True).stdout
    assert vmlinux_of(bzimage(packed + struct.pack("<I", len(ELF)))) == ELF


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (bytes(4096), "not a bzImage"),
        (bzimage(b"\x1f\x8bgzip...."), "compression not known"),
        (bzimage(lzma.compress(b"no elf") + bytes(4)), "not an ELF"),
    ],
)
def test_what_is_no_kernel_is_said(image: bytes, problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        vmlinux_of(image)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tree = tmp_path / "lib/modules/6.9"
    (tree / "kernel").mkdir(parents=True)
    (tree / "modules.dep").write_text(
        "kernel/top.ko.xz: kernel/middle-part.ko kernel/low.ko\n"
        "kernel/middle-part.ko: kernel/low.ko\n"
        "kernel/low.ko:\n"
        "kernel/other.ko: kernel/low.ko\n"
    )
    (tree / "modules.builtin").write_text("kernel/in-side.ko\n")
    (tree / "kernel/top.ko.xz").write_bytes(lzma.compress(b"top module"))
    for name in ("middle-part", "low", "other"):
        (tree / f"kernel/{name}.ko").write_bytes(name.encode())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/busybox").write_bytes(b"busybox program")
    return tmp_path


def test_dependencies_come_first_and_once(root: Path) -> None:
    order = load_order(root / "lib/modules/6.9", ["top", "in_side", "other", "middle_part"])
    assert [path.name for path in order] == ["low.ko", "middle-part.ko", "top.ko.xz", "other.ko"]


def test_a_module_the_kernel_lacks_is_named(root: Path) -> None:
    with pytest.raises(LabError, match=r"kernel 6\.9 has no module rdma_siw"):
        load_order(root / "lib/modules/6.9", ["rdma_siw"])


def test_the_initramfs_holds_unpacked_modules_in_load_order(root: Path) -> None:
    archive = initramfs(root, "6.9", ["top"])
    names = [f"modules/{name}.ko\0".encode() for name in ("00-low", "01-middle-part", "02-top")]
    places = [archive.index(name) for name in names]
    assert places == sorted(places)
    assert b"top module" in archive and b"busybox program" in archive
    assert init_script() in archive
    assert initramfs(root, "6.9", ["top"]) == archive


def test_init_is_a_valid_script() -> None:
    subprocess.run(["sh", "-n"], input=init_script(), check=True)


def test_the_bootstrap_names_no_mirror_and_cannot_outlive_the_lab(tmp_path: Path) -> None:
    recipe = load_recipe("debian-12")
    assert isinstance(recipe, DebianRecipe)
    argv = [str(word) for word in bootstrap_argv(recipe, tmp_path / "root", tmp_path / "log")]
    assert argv[:3] == ["setpriv", "--pdeathsig", "KILL"] and "--kill-child=KILL" in argv
    assert argv[-2:] == ["bookworm", str(tmp_path / "root")]
    assert not any("://" in word for word in argv)
    assert any("linux-image-6.12-amd64" in word for word in argv)


def test_progress_tells_the_phase_and_how_far() -> None:
    lines = ["I: running apt-get update...\n", "Get:1 something\n"]
    lines += [f"Unpacking package{n} (1.0) ...\n" for n in range(5)]
    lines += ["I: installing remaining packages inside the chroot...\n"]
    lines += [f"Setting up package{n} (1.0) ...\n" for n in range(2)]
    assert list(notes(lines, every=2)) == [
        "running apt-get update",
        "unpacking packages (2)",
        "unpacking packages (4)",
        "installing remaining packages inside the chroot",
        "setting up packages (2)",
    ]
