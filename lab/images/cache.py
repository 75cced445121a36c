"""Finished images on disk, by content: built once, whole or not at all.

An image is the directory NAME-DIGEST. It is built as NAME-DIGEST.partial under a lock and
renamed when it is complete, so whatever a killed build leaves is never taken for an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lab.deadline import Deadline
from lab.errors import InputError
from lab.images.build import build_debian, debian_digest
from lab.images.image import GuestImage, Kernel
from lab.images.recipe import DebianRecipe, Qcow2Recipe, Recipe
from lab.progress import Progress, Step

Builder = Callable[[DebianRecipe, str, Path, Deadline, Step], GuestImage]
"""(recipe, digest, empty directory to fill, deadline, step) -> the image in that directory."""

_MANIFEST = "image.json"
_PARTIAL = ".partial"


def ensure(
    recipe: Recipe,
    cache_dir: Path,
    *,
    deadline: Deadline,
    progress: Progress,
    shared: Path | None = None,
    build: Builder = build_debian,
) -> GuestImage:
    """The image of `recipe`: from `cache_dir` if it is there, else built into it.

    It is taken from `shared`, another user's cache, where only that has it. Of several callers
    at once, in one process or many, one builds and the others wait for it.
    Raises LabError when the build fails or `deadline` passes, InputError when a ready-made
    disk is missing or is not the one the recipe means.
    """
    if isinstance(recipe, Qcow2Recipe):
        return _ready_made(recipe, cache_dir, progress)
    digest = debian_digest(recipe)
    entry = cache_dir / f"{recipe.name}-{digest[:16]}"
    for known in (entry, *([shared / entry.name] if shared else [])):
        if os.access(known / _MANIFEST, os.R_OK):
            return _read(known)
    cache_dir.mkdir(parents=True, exist_ok=True)
    with progress.step(f"image {recipe.name}") as step, _locked(entry, deadline, step):
        if (entry / _MANIFEST).is_file():
            return _read(entry)
        remove_stale(cache_dir)
        partial = _partial(entry)
        shutil.rmtree(partial, ignore_errors=True)
        # Readable by the user that QEMU runs as.
        partial.mkdir(mode=0o755)
        try:
            image = build(recipe, digest, partial, deadline, step)
            _write_manifest(partial, image)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        partial.rename(entry)
        return _read(entry)


def list_images(cache_dir: Path) -> list[GuestImage]:
    """Every finished image in `cache_dir`, by name and then age (the newest last)."""
    entries = [manifest.parent for manifest in cache_dir.glob(f"*/{_MANIFEST}")]
    finished = [entry for entry in entries if not entry.name.endswith(_PARTIAL)]
    images = [(_read(entry), entry.stat().st_mtime) for entry in finished]
    return [image for image, _ in sorted(images, key=lambda each: (each[0].name, each[1]))]


def prune(cache_dir: Path, *, keep: frozenset[str] = frozenset()) -> list[GuestImage]:
    """Delete finished images whose digest is not in `keep`, and what killed builds left.

    The caller puts the digests of images that guests still run from in `keep`. Returns the
    deleted images.
    """
    doomed = [image for image in list_images(cache_dir) if image.digest not in keep]
    for image in doomed:
        # One rename turns an image into the leftover of a build, so no half image is ever seen.
        entry = image.root.parent
        entry.rename(_partial(entry))
    remove_stale(cache_dir)
    return doomed


def remove_stale(cache_dir: Path) -> None:
    """Delete what builds that no longer run left behind; a build under way holds its lock."""
    for partial in cache_dir.glob(f"*{_PARTIAL}"):
        with suppress(Timeout), FileLock(_lock(partial.with_suffix("")), blocking=False):
            shutil.rmtree(partial)


def _partial(entry: Path) -> Path:
    return entry.with_name(entry.name + _PARTIAL)


def _lock(entry: Path) -> Path:
    return entry.with_name(entry.name + ".lock")


@contextmanager
def _locked(entry: Path, deadline: Deadline, step: Step) -> Iterator[None]:
    lock = FileLock(_lock(entry), thread_local=False)

    def acquire() -> bool:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            step.note("waiting for another build of the same image")
            return False
        return True

    deadline.poll(acquire, f"another build of {entry.name}", interval_s=0.2)
    try:
        yield
    finally:
        lock.release()


def _write_manifest(folder: Path, image: GuestImage) -> None:
    fields = asdict(image) | {"root": image.root.name}
    for kernel in fields["kernels"].values():
        kernel.update(vmlinux=kernel["vmlinux"].name, initramfs=kernel["initramfs"].name)
    (folder / _MANIFEST).write_text(json.dumps(fields, indent=2) + "\n")
    for path in folder.iterdir():
        # Else a power cut after the rename could leave a finished image with empty files.
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _read(entry: Path) -> GuestImage:
    fields: dict[str, Any] = json.loads((entry / _MANIFEST).read_text())
    kernels = {
        name: Kernel(
            name=name,
            release=kernel["release"],
            vmlinux=entry / kernel["vmlinux"],
            initramfs=entry / kernel["initramfs"],
            cmdline=tuple(kernel["cmdline"]),
        )
        for name, kernel in fields["kernels"].items()
    }
    return GuestImage(**{**fields, "root": entry / fields["root"], "kernels": kernels})


def _ready_made(recipe: Qcow2Recipe, cache_dir: Path, progress: Progress) -> GuestImage:
    """A user's own disk, verified; an unchanged size and time spare hashing it again."""
    try:
        stat = recipe.path.stat()
    except OSError as error:
        raise InputError(
            f"image {recipe.name} has no disk: {error.strerror}", where=str(recipe.path)
        ) from error
    seen = f"{recipe.path}\n{stat.st_size}\n{stat.st_mtime_ns}\n{recipe.sha256}\n"
    name = hashlib.sha256(str(recipe.path).encode()).hexdigest()[:16]
    verified = cache_dir / f"{recipe.name}-{name}.verified"
    if not verified.is_file() or verified.read_text() != seen:
        with progress.step(f"image {recipe.name}") as step:
            step.note(f"checking the SHA-256 of {recipe.path}")
            with recipe.path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != recipe.sha256:
            raise InputError(
                f"is not the disk that image {recipe.name} means: its SHA-256 is {found}",
                where=str(recipe.path),
                hint=f"the recipe asks for {recipe.sha256}: get that file, or change the recipe",
            )
        cache_dir.mkdir(parents=True, exist_ok=True)
        verified.write_text(seen)
    return GuestImage(
        name=recipe.name,
        digest=recipe.sha256,
        root=recipe.path,
        root_format="qcow2",
        kernels={},
        default_kernel=None,
        boot="disk",
        size_bytes=stat.st_size,
    )
