"""What a provider of virtual machines does for the lab."""

from __future__ import annotations

from typing import Protocol

from lab.deadline import Deadline
from lab.images.image import GuestImage
from lab.plan import GuestPlan
from lab.providers.libvirt.domain import DirectBoot, DiskBoot


class Provider(Protocol):
    """Creates and ends machines by the names that a plan gives them."""

    def define(self, guest: GuestPlan, image: GuestImage, boot: DirectBoot | DiskBoot) -> None:
        """Create the machine, paused: its console is kept from the first byte it will write."""

    def resume(self, guest: GuestPlan) -> None:
        """Let the machine run."""

    def check_alive(self, guest: GuestPlan) -> None:
        """Raise LabError, with QEMU's last words, when the machine is gone or has panicked."""

    def destroy(self, domain: str, deadline: Deadline) -> None:
        """End the machine by force; one that is not there is fine."""
