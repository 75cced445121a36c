"""A histogram of durations too frequent to keep one by one.

Buckets are powers of two, each split in 32: a value is known to about 3 %, as in HdrHistogram
(hdrhistogram.org) with one and a half significant digits. Adding is a few operations.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPLIT_BITS = 5
_SPLIT = 1 << _SPLIT_BITS


def bucket(value: int) -> int:
    """The number of the bucket that holds `value`, which is not negative."""
    shift = value.bit_length() - _SPLIT_BITS - 1
    return value if shift <= 0 else (shift << _SPLIT_BITS) + (value >> shift)


def lowest(number: int) -> int:
    """The smallest value in that bucket."""
    shift = (number >> _SPLIT_BITS) - 1
    return number if shift <= 0 else ((number & (_SPLIT - 1)) | _SPLIT) << shift


class Histogram:
    """Counts by bucket of values in `unit`."""

    def __init__(self, unit: str, counts: dict[int, int] | None = None) -> None:
        self.unit = unit
        self.counts = counts or {}

    def add(self, value: int) -> None:
        number = bucket(value)
        self.counts[number] = self.counts.get(number, 0) + 1

    def merge(self, counts: dict[int, int]) -> None:
        """Take in the counts of another histogram of the same unit."""
        for number, count in counts.items():
            self.counts[number] = self.counts.get(number, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentile(self, quantile: float) -> int:
        """The lower edge of the bucket that holds the value of index int(N * quantile)."""
        index = int(self.total * quantile)
        for number in sorted(self.counts):
            index -= self.counts[number]
            if index < 0:
                return lowest(number)
        raise ValueError("an empty histogram has no percentiles")

    def as_dict(self) -> dict[str, Any]:
        """Unit and [lowest value of the bucket, count] pairs, smallest first."""
        pairs = [[lowest(number), self.counts[number]] for number in sorted(self.counts)]
        return {"unit": self.unit, "buckets": pairs}
