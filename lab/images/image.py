"""What a provider boots: the files of a finished image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Kernel:
    """One way to boot an image directly. `cmdline` lacks only console and management words."""

    name: str
    release: str
    vmlinux: Path
    initramfs: Path
    cmdline: tuple[str, ...]


@dataclass(frozen=True)
class GuestImage:
    """A finished image. `root` is never written: guests get overlays of it."""

    name: str
    digest: str
    root: Path
    root_format: Literal["raw", "qcow2"]
    kernels: Mapping[str, Kernel]
    default_kernel: str | None
    boot: Literal["direct", "disk"]
    size_bytes: int
