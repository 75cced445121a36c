"""The topology as a variant has it, and builds of the agent: checked before anything is booted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

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


def patched(topology: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`topology` with what `patch` says instead: mappings are merged, all else is replaced.

    As RFC 7396 (JSON Merge Patch) merges, null included: it removes.
    """
    merged = dict(topology)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = patched(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged
