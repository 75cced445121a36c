"""What must be true of the host before a lab is made: checked and found out, nothing created."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.host import accelerator, libvirt_daemon
from lab.host.capabilities import probe_capabilities
from lab.host.state import images_dir, shared_images_dir, state_root
from lab.images import cache
from lab.images.image import GuestImage, Kernel
from lab.images.lookup import GuestBoot, look_up
from lab.images.recipe import Recipe, load_recipe
from lab.progress import Progress
from lab.providers.libvirt.domain import DirectBoot, DiskBoot, Machine
from lab.providers.storage import check_space
from lab.teardown import TEARDOWN_S, stop_idle_daemons, uninterrupted
from lab.topology.lint import check
from lab.topology.load import LoadedTopology

WantedAccelerator = Literal["auto", "kvm", "tcg"]
# The image the accelerator probe boots when no guest of the topology boots a kernel directly.
PROBE_IMAGE = "debian-12"


@dataclass(frozen=True)
class Prepared:
    """A topology that this host can bring up."""

    loaded: LoadedTopology
    images: Mapping[str, GuestImage]
    kernels: Mapping[str, Kernel | None]
    image_s: float
    uri: str
    machine: Machine
    accelerator_reason: str

    def boot(self, guest: str, management_mac: str, seed: Path) -> DirectBoot | DiskBoot:
        kernel = self.kernels[guest]
        if kernel is None:
            return DiskBoot(seed)
        cmdline = (*kernel.cmdline, "console=ttyS0", f"lab.mgmt={management_mac}")
        return DirectBoot(kernel.vmlinux, seed, cmdline)


def prepare(
    loaded: LoadedTopology,
    *,
    wanted: WantedAccelerator,
    progress: Progress,
    deadline: Deadline,
) -> Prepared:
    """Images, libvirt, accelerator and capabilities for `loaded`.

    Raises InputError, naming file and line, for what this host cannot give; LabError when the
    host itself is at fault. libvirt's daemons are left running only for what was prepared.
    """
    check(loaded, None)
    boots = look_up(loaded)
    _make_state_root()
    check_space(state_root())
    try:
        return _prepare(loaded, boots, wanted, progress, deadline)
    except BaseException:
        with uninterrupted():
            stop_idle_daemons(Deadline(TEARDOWN_S))
        raise


def _prepare(
    loaded: LoadedTopology,
    boots: Mapping[str, GuestBoot],
    wanted: WantedAccelerator,
    progress: Progress,
    deadline: Deadline,
) -> Prepared:
    with ThreadPoolExecutor(1) as pool:
        # libvirt starts while the images are looked up.
        uri = pool.submit(libvirt_daemon.ensure, deadline)
        started_s = time.monotonic()
        images = _images(loaded, boots, progress, deadline)
        image_s = time.monotonic() - started_s
        kernels = {
            name: images[name].kernels[boot.kernel] if boot.kernel else None
            for name, boot in boots.items()
        }
        probe_kernel = next(filter(None, kernels.values()), None) or _probe_kernel(
            progress, deadline
        )
        chosen = accelerator.probe(
            probe_kernel.vmlinux,
            probe_kernel.initramfs,
            state_root(),
            wanted=wanted,
            deadline=deadline,
        )
        capabilities = probe_capabilities(uri.result(), chosen.name, deadline)
    check(loaded, capabilities)
    return Prepared(
        loaded=loaded,
        images=images,
        kernels=kernels,
        image_s=image_s,
        uri=uri.result(),
        machine=Machine(
            accelerator=chosen.name,
            fabric=capabilities.fabric,
            vhost=Path("/dev/vhost-net").exists(),
        ),
        accelerator_reason=chosen.reason,
    )


def _make_state_root() -> None:
    try:
        state_root().mkdir(parents=True, exist_ok=True)
        if not os.access(state_root(), os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(
            f"cannot keep labs here: {error.strerror}",
            where=str(state_root()),
            hint="set LAB_STATE_DIR to a directory that can be written to",
        ) from error


def _images(
    loaded: LoadedTopology,
    boots: Mapping[str, GuestBoot],
    progress: Progress,
    deadline: Deadline,
) -> dict[str, GuestImage]:
    made: dict[str, GuestImage] = {}
    for name, boot in boots.items():
        if boot.recipe.name in made:
            continue
        image = _ensure(boot.recipe, progress, deadline)
        if image.boot == "disk" and os.geteuid() == 0:
            _check_readable(image, loaded.where(("guests", name, "image")))
        made[boot.recipe.name] = image
    return {name: made[boot.recipe.name] for name, boot in boots.items()}


def _ensure(recipe: Recipe, progress: Progress, deadline: Deadline) -> GuestImage:
    return cache.ensure(
        recipe, images_dir(), shared=shared_images_dir(), deadline=deadline, progress=progress
    )


def _check_readable(image: GuestImage, where: str) -> None:
    """libvirt's system daemon runs QEMU as a user who reads what anybody may."""
    for path, needed in ((image.root, 0o004), *((each, 0o001) for each in image.root.parents)):
        if not path.stat().st_mode & needed:
            raise InputError(
                f"QEMU, which runs as another user, may not read {image.root}",
                where=where,
                hint=f"chmod o+{'r' if path == image.root else 'x'} {path}, or move the image",
            )


def _probe_kernel(progress: Progress, deadline: Deadline) -> Kernel:
    image = _ensure(load_recipe(PROBE_IMAGE), progress, deadline)
    if image.default_kernel is None:
        raise LabError(f"image {PROBE_IMAGE} has no kernel to probe the accelerator with")
    return image.kernels[image.default_kernel]
