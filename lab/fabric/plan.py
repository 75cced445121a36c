"""The names and shapes of a lab's network, before any of it exists."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TapPlan:
    """A guest NIC's end on the host. `name` has at most 15 characters (IFNAMSIZ - 1)."""

    name: str
    segment: str
    queues: int
    mtu: int


@dataclass(frozen=True)
class SegmentPlan:
    """A bridge in the lab's namespace; `rate_bits_per_s` is the line rate of each port."""

    name: str
    bridge: str
    mtu: int
    rate_bits_per_s: int | None


@dataclass(frozen=True)
class FabricPlan:
    namespace: str
    segments: tuple[SegmentPlan, ...]
    taps: tuple[TapPlan, ...]

    def segment(self, name: str) -> SegmentPlan:
        return next(segment for segment in self.segments if segment.name == name)
