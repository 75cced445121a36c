"""What a user writes down of an experiment: a workload, its variants, and what must hold of them.

Frozen models only, as in lab.topology.model. What needs more than one field (a gate's variant that
is not defined, a metric that the workload does not measure) is lab.topology.rules.experiments.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

MAX_BOOTS = 200
MAX_TRIALS = 1000
LABEL_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,47}$"
METRIC_PATTERN = r"^[a-z][a-z0-9_.]*$"
LINK_PATTERN = r"^(https?://|#)\S+$"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# Unlike a guest's, never part of a file or interface name of limited length.
Label = Annotated[str, Field(pattern=LABEL_PATTERN)]


def _share(text: Any) -> Any:
    """`"+15 %"` -> 0.15."""
    if not isinstance(text, str):
        raise ValueError("is a percentage, such as 15%")
    number = text.strip().removesuffix("%").strip()
    if number == text.strip():
        raise ValueError(f"{text} needs a percent sign, such as 15%")
    try:
        return float(number) / 100
    except ValueError:
        raise ValueError(f"{text} is no percentage, such as 15%") from None


Share = Annotated[
    float,
    BeforeValidator(_share),
    Field(ge=-0.99, le=1000),
    PlainSerializer(lambda share: f"{share * 100:g}%", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^[+-]?[0-9.]+ ?%$"}),
]


class Bound(Model):
    """`">= 0.5"`: a comparison with a number."""

    relation: Literal["==", ">=", "<="]
    number: float

    def holds(self, value: float) -> bool:
        match self.relation:
            case "==":
                return value == self.number
            case ">=":
                return value >= self.number
            case "<=":
                return value <= self.number

    def __str__(self) -> str:
        return f"{self.relation} {self.number:g}"


def _bound(text: Any) -> Any:
    if isinstance(text, Mapping):
        return text
    relation, _, number = str(text).strip().partition(" ")
    try:
        if relation not in ("==", ">=", "<="):
            raise ValueError(relation)
        return {"relation": relation, "number": float(number)}
    except ValueError:
        raise ValueError(f"{text} is no comparison, such as '>= 0.5' or '== 0'") from None


BoundText = Annotated[
    Bound,
    BeforeValidator(_bound),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^(==|>=|<=) [0-9.]+$"}),
]

# One variant, or two: the ratio of the first to the second, for comparisons of scaling.
Side = Label | tuple[Label, Label]


class Direction(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"


class KnownIssue(Model):
    """A gate expected to fail until `expires`; a failure after it, or a pass before, is news."""

    reason: str = Field(min_length=10)
    link: str = Field(pattern=LINK_PATTERN)
    expires: date


class Times(Model):
    """As many of counter or metric `metric` as `times` those of the trials of variant `of`."""

    metric: str
    times: float = Field(gt=0)
    of: Label


class Gate(Model):
    """One thing that must hold, or is reported. Exactly one of the kinds of claim is given:

    `effect`: `variant` beyond `baseline` in `direction`, by at least so much (`separated`: every
    trial of the one beyond every one of the other, as well);
    `within`: `variant` no further from `baseline` than so much, either way;
    `rate`: the share of `variant`'s trials in which `metric` is not 0;
    `value`: the mean of `metric` over `variant`'s boots;
    `each`: `metric` of every trial of `variant`;
    `report`: nothing is claimed; with a `baseline` the change is shown, else the value.
    """

    metric: str = Field(pattern=METRIC_PATTERN, description="a metric or counter")
    variant: Side
    baseline: Side | None = None
    direction: Direction | None = None
    effect: Share | None = None
    separated: bool = False
    within: Annotated[Share, Field(gt=0)] | None = None
    rate: BoundText | None = None
    value: BoundText | None = None
    each: BoundText | None = None
    report: bool = False
    at_least: Times | None = Field(default=None, description="more of something than elsewhere")
    fails_on: Label | None = Field(
        default=None, description="the variant before the fix, on which this same check must fail"
    )
    control: bool = Field(default=False, description="a control, which must not show the effect")
    reference: str | None = Field(default=None, description="the published relative effect")
    known_issue: KnownIssue | None = None
    why: str | None = Field(default=None, description="where the claim comes from")


class Workload(BaseModel):
    """What is run, by `lab run`'s name, and where; every other key is a policy or parameter."""

    model_config = ConfigDict(extra="allow", frozen=True)

    engine: str
    guest: str | None = None
    peer: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class Variant(BaseModel):
    """One side of a comparison. All other keys are policies and parameters.

    `topology` changes the guests (a kernel, a disk's aio, ...): such a variant needs boots of its
    own. `agent` is another build of the agent, a directory with the package; it is swapped within
    a boot. `guest`, `peer` and `engine` replace the workload's.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    topology: dict[str, Any] | None = None
    agent: Path | None = None
    engine: str | None = None
    guest: str | None = None
    peer: str | None = None
    trials: int | None = Field(default=None, ge=1, le=MAX_TRIALS)

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class Quick(Model):
    """What `--profile quick` replaces; `workload` and `variants` replace parameters one by one."""

    trials: int | None = Field(default=None, ge=1, le=MAX_TRIALS)
    boots: int | None = Field(default=None, ge=1, le=MAX_BOOTS)
    workload: dict[str, Any] = {}
    variants: dict[Label, dict[str, Any]] = {}
    skip: bool = Field(default=False, description="leave the experiment out of quick runs")


class Experiment(Model):
    """Variants of a workload, measured in turn within each of `boots` boots, and gates on them.

    `trials` of each variant are made in each boot. The boot is the unit of replication: figures
    of one boot are averaged, boots are compared.
    """

    what: str | None = Field(default=None, description="what it shows, in a sentence")
    workload: Workload
    variants: dict[Label, Variant] = Field(min_length=1)
    trials: int = Field(default=1, ge=1, le=MAX_TRIALS)
    boots: int = Field(default=5, ge=1, le=MAX_BOOTS)
    timeout_s: float = Field(default=300, gt=0, le=86400, description="of each trial, under KVM")
    quick: Quick = Quick()
    gates: dict[Label, Gate] = Field(min_length=1)
