"""What a variant's policies and parameters are, typed as the agent declares them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from lab.guest import catalogue
from lab.topology.experiment import Experiment


def engine_of(experiment: Experiment, variant: str) -> str:
    return experiment.variants[variant].engine or experiment.workload.engine


def parameters_of(experiment: Experiment, variant: str) -> dict[str, Any]:
    """The workload's, and over them the variant's own; InputError for an unknown engine."""
    given = {**experiment.workload.parameters, **experiment.variants[variant].parameters}
    return typed(engine_of(experiment, variant), given)


def typed(engine: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A topology file's values are text until it is known what they stand for."""
    kinds = catalogue.find(engine).kinds
    return {
        name: value if kinds.get(name) is str or not isinstance(value, str) else _scalar(value)
        for name, value in given.items()
    }


def _scalar(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
