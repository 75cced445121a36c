"""What was done in each interval of time: the shape of a run, not only its mean."""

from __future__ import annotations


class Series:
    """Amounts by interval of `bin_s` from `start_s`, in CLOCK_MONOTONIC seconds."""

    def __init__(self, start_s: float, bin_s: float) -> None:
        self._start_s = start_s
        self._bin_s = bin_s
        self._bins: list[int] = []

    def add(self, now_s: float, amount: int) -> None:
        if now_s < self._start_s:
            return
        index = int((now_s - self._start_s) / self._bin_s)
        if index >= len(self._bins):
            self._bins += [0] * (index + 1 - len(self._bins))
        self._bins[index] += amount

    def whole(self, elapsed_s: float) -> list[int]:
        """The amounts of the intervals that lie wholly within the first `elapsed_s` seconds."""
        # The tolerance keeps 3.0 s of 0.1 s bins at 30.
        count = int(elapsed_s / self._bin_s + 1e-6)
        return (self._bins + [0] * count)[:count]


def together(series: list[list[int]]) -> list[int]:
    """The sum of several series, interval by interval, as long as the shortest."""
    return [sum(amounts) for amounts in zip(*series)]


def lowest_to_highest(bins: list[int]) -> float:
    """Smallest over largest interval: 1 for a steady run, 0 for one that stood still."""
    largest = max(bins, default=0)
    return min(bins) / largest if largest else 0.0


def coefficient_of_variation(bins: list[int]) -> float:
    """Standard deviation (dividing by N - 1) over mean."""
    if len(bins) < 2 or not any(bins):
        return 0.0
    mean = sum(bins) / len(bins)
    variance = sum((amount - mean) ** 2 for amount in bins) / (len(bins) - 1)
    return float(variance**0.5 / mean)
