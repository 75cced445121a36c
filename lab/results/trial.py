"""One run of one variant, as it is kept: every figure, every sample, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from math import isfinite
from typing import Any, Literal

from pydantic import TypeAdapter

from lab.guest.agent_client import Metric

Fault = Literal["refused", "lost"]


@dataclass(frozen=True)
class Trial:
    """`boot` numbers the boots that were made, `planned_boot` the one of the design it stands for.

    `metrics` carry unit and direction, `counters` are the mechanism's own evidence. `error` is
    why there is no whole result; `fault` says whether the agent `refused` or failed what it was
    asked, or the guest was `lost`. `noise` is what the host did meanwhile: see lab.results.noise.
    """

    experiment: str
    variant: str
    boot: int
    planned_boot: int
    number: int
    started: str
    elapsed_s: float
    metrics: tuple[Metric, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, Sequence[int]] = field(default_factory=dict)
    histograms: Mapping[str, Any] = field(default_factory=dict)
    harness: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    layer: str = ""
    fidelity: str = ""
    command: str = ""
    raw: Any = None
    noise: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    fault: Fault | None = None

    @property
    def is_whole(self) -> bool:
        return self.error is None

    def value(self, name: str) -> float | None:
        """The metric called `name`, or else the counter; None if it has neither."""
        for metric in self.metrics:
            if metric.name == name:
                return metric.value
        return self.counters.get(name)

    def metric(self, name: str) -> Metric | None:
        return next((each for each in self.metrics if each.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def trial_from_dict(document: Any) -> Trial:
    """The inverse of `as_dict`. Raises ValueError for anything else, types and all."""
    trial: Trial = _adapter().validate_python(document)
    if not all(isfinite(metric.value) for metric in trial.metrics):
        raise ValueError("a metric is no finite number")
    return trial


@cache
def _adapter() -> TypeAdapter[Trial]:
    return TypeAdapter(Trial)
