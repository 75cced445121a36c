"""A metric's figures, wherever they were measured: what is compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Series:
    """Figures of one metric under one set of conditions.

    `boots` has the figures of each boot; what was imported knows runs only, and every run counts
    as a boot with one figure. `ids` names them in the same order. `labels` say what was measured
    (`connections=40`, a job's name); series of the same labels and metric are comparable.
    """

    metric: str
    unit: str
    better: Better
    boots: tuple[tuple[float, ...], ...]
    ids: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value for boot in self.boots for value in boot)

    @property
    def variant(self) -> str:
        return " ".join(self.labels)


def merged(parts: Iterable[Series]) -> tuple[Series, ...]:
    """One series for each metric and set of labels, with the boots of all `parts` in order."""
    found: dict[tuple[tuple[str, ...], str, str], Series] = {}
    for part in parts:
        key = (part.labels, part.metric, part.unit)
        before = found.get(key)
        found[key] = part if before is None else _joined(before, part)
    return tuple(found.values())


def _joined(before: Series, part: Series) -> Series:
    return Series(
        metric=before.metric,
        unit=before.unit,
        better=before.better,
        boots=before.boots + part.boots,
        ids=before.ids + part.ids,
        labels=before.labels,
    )
