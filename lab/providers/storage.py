"""A guest's disk files: an overlay of its image, and empty data disks. Sparse, all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.deadline import Deadline
from lab.errors import LabError
from lab.images.image import GuestImage
from lab.plan import DiskPlan, GuestPlan
from lab.process import run
from lab.topology.model import Disk
from lab.units import MIB, format_bytes

# Overlays grow while guests run; with less than this, even the first boot may fill the disk.
MINIMUM_FREE_BYTES = 1024 * MIB


def disk_commands(guest: GuestPlan, image: GuestImage) -> list[list[str]]:
    """What makes the files of `guest.disks`; the image itself is only ever a backing file."""
    create = ["qemu-img", "create", "-q", "-f", "qcow2"]
    overlay = ["-b", str(image.root), "-F", image.root_format, str(guest.root_disk.path)]
    return [create + overlay, *(_data_disk(disk, create) for disk in guest.data_disks)]


def _data_disk(disk: DiskPlan, create: list[str]) -> list[str]:
    assert isinstance(disk.spec, Disk)
    if disk.spec.format == "raw":
        return ["truncate", "-s", str(disk.spec.size), str(disk.path)]
    return [*create, str(disk.path), str(disk.spec.size)]


def create_disks(guest: GuestPlan, image: GuestImage, deadline: Deadline) -> None:
    for command in disk_commands(guest, image):
        run(command, deadline=deadline)


def check_space(directory: Path) -> None:
    """Raise LabError when the file system of `directory` is all but full."""
    free = shutil.disk_usage(directory).free
    if free < MINIMUM_FREE_BYTES:
        raise LabError(
            f"only {format_bytes(free // MIB * MIB)} are free for disks",
            where=str(directory),
            hint=f"free at least {format_bytes(MINIMUM_FREE_BYTES)}, or set LAB_STATE_DIR to a"
            " larger file system; `lab image prune` removes images that no lab uses",
        )
