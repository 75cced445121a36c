"""The initramfs of an image: busybox, the few modules that reach the root disk, and /init."""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

from lab.errors import LabError
from lab.images.seed import CHARACTER_DEVICE, DIRECTORY, REGULAR, SYMLINK, CpioEntry, cpio

# Whatever /init calls that is not part of busybox's shell.
_APPLETS = ("sh", "mount", "insmod", "cat", "usleep", "ip", "cp", "poweroff", "switch_root")


def initramfs(root: Path, release: str, modules: Iterable[str]) -> bytes:
    """An archive for the kernel `release`, from the unpacked system in `root`.

    Uncompressed: the host copies it into the guest's memory faster than any guest unpacks it.
    """
    return cpio(_entries(root, root / "lib/modules" / release, modules))


def _entries(root: Path, tree: Path, modules: Iterable[str]) -> Iterator[CpioEntry]:
    yield CpioEntry("init", REGULAR | 0o755, init_script())
    yield CpioEntry("bin/busybox", REGULAR | 0o755, (root / "bin/busybox").read_bytes())
    for applet in _APPLETS:
        yield CpioEntry(f"bin/{applet}", SYMLINK | 0o777, b"busybox")
    # The kernel opens it as /init's standard streams, before /init can mount anything.
    yield CpioEntry("dev/console", CHARACTER_DEVICE | 0o600, device=(5, 1))
    for folder in ("proc", "sys", "root", "seed"):
        yield CpioEntry(folder, DIRECTORY | 0o755)
    names = []
    for number, path in enumerate(load_order(tree, modules)):
        # The glob in /init gives them back in this order.
        names.append(f"modules/{number:02}-{path.name.split('.')[0]}.ko")
        yield CpioEntry(names[-1], REGULAR | 0o644, module_bytes(path))


def init_script() -> bytes:
    return resources.files("lab.images").joinpath("init.sh").read_bytes()


def module_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def load_order(tree: Path, modules: Iterable[str]) -> list[Path]:
    """The files to load for `modules`, dependencies first; what is built in needs none.

    `tree` is /lib/modules/RELEASE. Raises LabError for a module that the kernel does not have.
    """
    needs: dict[str, list[str]] = {}
    for line in (tree / "modules.dep").read_text().splitlines():
        path, _, dependencies = line.partition(":")
        needs[path] = dependencies.split()
    by_name = {_module_name(path): path for path in needs}
    built_in = {_module_name(path) for path in (tree / "modules.builtin").read_text().splitlines()}
    order: dict[str, None] = {}
    for name in modules:
        if name in by_name:
            # modules.dep lists what a module needs nearest first.
            order.update(dict.fromkeys([*reversed(needs[by_name[name]]), by_name[name]]))
        elif name not in built_in:
            raise LabError(f"kernel {tree.name} has no module {name}")
    return [tree / path for path in order]


def _module_name(path: str) -> str:
    return path.rpartition("/")[2].split(".")[0].replace("-", "_")
