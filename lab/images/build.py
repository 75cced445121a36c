"""Building a Debian image: a root directory by mmdebstrap, kernels out of it, a disk from it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from lab.deadline import Deadline
from lab.errors import LabError
from lab.images.bootstrap import bootstrap
from lab.images.image import GuestImage, Kernel
from lab.images.initramfs import init_script, initramfs
from lab.images.kernel import vmlinux_of
from lab.images.recipe import DebianRecipe, RecipeFile
from lab.process import run
from lab.progress import Step

# Raised whenever the same recipe would build another image than before.
BUILDER_VERSION = 1


def debian_digest(recipe: DebianRecipe) -> str:
    """What an image is known by: everything of this repository that decides its content."""
    content = {
        "builder": BUILDER_VERSION,
        "init": init_script().decode(),
        "recipe": recipe.model_dump(mode="json"),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def build_debian(
    recipe: DebianRecipe, digest: str, folder: Path, deadline: Deadline, step: Step
) -> GuestImage:
    """Build `recipe` into the empty `folder`. Needs root and some minutes.

    Raises LabError: not root, a host program missing or failing (with the end of its log), no
    such package, module or kernel, no space.
    """
    if os.geteuid() != 0:
        raise LabError(
            f"image {recipe.name} is not built yet, and building it needs root",
            hint=f"sudo .venv/bin/lab image build {recipe.name}, or once `lab up` as root",
        )
    root = folder / "root"
    bootstrap(recipe, root, deadline=deadline, step=step)
    step.note("adding files")
    add_files(recipe, root)
    step.note("unpacking kernels")
    kernels = {kernel.name: kernel for kernel in _kernels(recipe, root, folder, deadline)}
    for secret in root.glob("etc/ssh/ssh_host_*"):
        # Made when the package was installed; each guest is given its own.
        secret.unlink()
    disk = folder / "root.img"
    step.note("making the file system")
    make_file_system(root, disk, size_bytes=recipe.size, deadline=deadline)
    shutil.rmtree(root)
    return GuestImage(
        name=recipe.name,
        digest=digest,
        root=disk,
        root_format="raw",
        kernels=kernels,
        default_kernel=recipe.default_kernel,
        boot="direct",
        size_bytes=recipe.size,
    )


def add_files(recipe: DebianRecipe, root: Path) -> None:
    """Put the files and units of `recipe` into `root`, over those of the packages."""
    units = {f"/etc/systemd/system/{name}": text for name, text in recipe.units.items()}
    for path, file in {**recipe.files, **_as_files(units)}.items():
        target = root / path.lstrip("/")
        if not target.parent.resolve().is_relative_to(root.resolve()):
            # An absolute link inside the image would lead to this host's own files.
            raise LabError(f"{path} of image {recipe.name} lies behind a symbolic link")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if file.link is not None:
            target.symlink_to(file.link)
        else:
            target.write_text(file.content or "")
            target.chmod(int(file.mode, 8))


def _as_files(texts: dict[str, str]) -> dict[str, RecipeFile]:
    return {path: RecipeFile(content=text) for path, text in texts.items()}


def _kernels(
    recipe: DebianRecipe, root: Path, folder: Path, deadline: Deadline
) -> Iterator[Kernel]:
    for name, package in recipe.kernels.items():
        release = _release(package, root, deadline)
        vmlinux, archive = folder / f"vmlinux-{name}", folder / f"initramfs-{name}.cpio"
        vmlinux.write_bytes(vmlinux_of((root / f"boot/vmlinuz-{release}").read_bytes()))
        archive.write_bytes(initramfs(root, release, recipe.modules))
        yield Kernel(name, release, vmlinux, archive, recipe.cmdline)
    for path in root.glob("boot/vmlinuz-*"):
        path.unlink()


def _release(package: str, root: Path, deadline: Deadline) -> str:
    """The kernel release that `package` is, or that it depends on if it is a metapackage."""
    query = run(
        ["dpkg-query", f"--root={root}", "--show", "--showformat=${Depends}", package],
        deadline=deadline,
    )
    names: list[str] = re.findall(r"[^\s,|(]+", query.stdout)
    for name in [package, *names]:
        release = name.removeprefix("linux-image-")
        if (root / f"boot/vmlinuz-{release}").is_file():
            return release
    raise LabError(f"package {package} brings no kernel in /boot")


def make_file_system(root: Path, disk: Path, *, size_bytes: int, deadline: Deadline) -> None:
    """An ext4 file system of `size_bytes` in the sparse file `disk`, holding `root`.

    Neither journal nor checksums: guests only ever write to overlays that end with them.
    """
    options: list[str | Path] = [
        "-L",
        "root",
        "-m",
        "0",
        "-O",
        "^has_journal,^metadata_csum",
        "-d",
        root,
    ]
    size = f"{size_bytes // 1024}k"
    run(["mke2fs", "-q", "-t", "ext4", *options, disk, size], deadline=deadline)
