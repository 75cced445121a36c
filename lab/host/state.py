"""Where the lab keeps what must outlive a process: images, the labs that are up, locks.

<root>/images/              content-addressed guest images
<root>/labs/<name>/         one lab: its record, keys, overlays, seeds, consoles
<root>/locks/               one file a lock
"""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM_ROOT = Path("/var/lib/lab")


def state_root() -> Path:
    """The state directory: $LAB_STATE_DIR, else a system path as root, else the user's own.

    QEMU runs under another user when libvirt's system daemon starts it, which is why root's
    state is not kept below a home directory.
    """
    if override := os.environ.get("LAB_STATE_DIR"):
        return Path(override)
    if os.geteuid() == 0:
        return SYSTEM_ROOT
    from platformdirs import user_data_path

    return user_data_path("lab")


def images_dir() -> Path:
    return state_root() / "images"


def shared_images_dir() -> Path | None:
    """The images that root has built, for an ordinary user to read; None for root itself."""
    return None if os.geteuid() == 0 else SYSTEM_ROOT / "images"


def labs_dir() -> Path:
    return state_root() / "labs"


def locks_dir() -> Path:
    return state_root() / "locks"
