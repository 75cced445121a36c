"""The topology as a variant has it, and builds of the agent: checked before anything is booted."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from lab.experiments.design import patched
from lab.topology.load import LoadedTopology, parse
from lab.topology.problem import Problem, TopologyError


def with_patch(loaded: LoadedTopology, experiment: str, variant: str) -> LoadedTopology:
    """`loaded` as that variant changes it. Raises TopologyError at the patch's line."""
    patch = loaded.topology.experiments[experiment].variants[variant].topology
    assert patch
    # The text is a topology of its own: lines of the user's file do not apply to it.
    text = yaml.safe_dump(patched(loaded.tree.data, patch), sort_keys=False)
    where = loaded.where(("experiments", experiment, "variants", variant, "topology"))
    try:
        return parse(text, loaded.path)
    except TopologyError as error:
        raise TopologyError(
            Problem(where, f"with this patch: {each.message}", each.hint) for each in error.problems
        ) from None


def problems(loaded: LoadedTopology) -> Iterator[Problem]:
    """Patches that make no topology, and agents that are not there."""
    for name, experiment in loaded.topology.experiments.items():
        for label, variant in experiment.variants.items():
            if variant.topology:
                try:
                    with_patch(loaded, name, label)
                except TopologyError as error:
                    yield from error.problems
            if variant.agent:
                directory = loaded.path.parent / variant.agent
                if not (directory / "datapath_agent" / "main.py").is_file():
                    loc = ("experiments", name, "variants", label, "agent")
                    message = f"no agent in {directory}: there is no datapath_agent/main.py"
                    yield Problem(loaded.where(loc), message)
