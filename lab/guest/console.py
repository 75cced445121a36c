"""A guest's serial console as QEMU keeps it on disk: milestones of the boot, and its last lines."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

# Printed by the image's initramfs and units when they get there.
MILESTONE = re.compile(rb"LAB-PHASE (\w+)")
FAILURE = re.compile(rb"LAB-FAILED ([^\r\n]+)[\r\n]")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class ConsoleLog:
    """The console log at `path`, which may not exist yet."""

    path: Path

    def read(self) -> bytes:
        """All that is kept; virtlogd moves a log that grows large to `.0`, that one to `.1`."""
        rotated = sorted(self.path.parent.glob(f"{self.path.name}.[0-9]"), reverse=True)
        data = b""
        for path in (*rotated, self.path):
            with contextlib.suppress(FileNotFoundError):
                data += path.read_bytes()
        return data

    def milestones(self) -> set[str]:
        return {match.decode() for match in MILESTONE.findall(self.read())}

    def failure(self) -> str | None:
        """What the image's own boot scripts gave up on, if they did."""
        found = FAILURE.search(self.read())
        return found[1].decode(errors="replace") if found else None

    def tail(self, lines: int = 40) -> str:
        """The last `lines` lines without control sequences; a note when there are none."""
        text = CONTROL.sub("", self.read().decode(errors="replace"))
        kept = [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
        return "\n".join(kept) or "(the console is empty)"
