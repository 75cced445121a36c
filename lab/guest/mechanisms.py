"""What the agent's mechanisms declare: read from its own sources, before a guest is asked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from datapath_agent import mechanisms
from datapath_agent.mechanism import Mechanism, workloads
from datapath_agent.parameters import Parameter
from datapath_agent.protocol import Fault

from lab.errors import InputError


def names() -> list[str]:
    return mechanisms.names()


def find(name: str) -> Mechanism:
    """The declaration of that mechanism; InputError if there is none."""
    if mechanism := mechanisms.find(name):
        return mechanism
    close = difflib.get_close_matches(name, names(), 1)
    raise InputError(
        f"no mechanism {name}; there are {', '.join(names())}",
        hint=f"did you mean {close[0]}?" if close else "`lab run --list` describes them",
    )


def check(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` complete, as {"preset", "policy", "parameters"}.

    Raises InputError for what the agent would refuse without looking at its guest.
    """
    prepare = workloads(name, find(name))[name].prepare
    try:
        checked: dict[str, Any] = prepare(dict(given))
    except Fault as fault:
        raise InputError(
            f"{(fault.field or name).removeprefix('parameters.')}: {fault.message}",
            where=f"mechanism {name}",
            hint="`lab run --list` describes policies, presets and parameters",
        ) from None
    return checked


def kinds(name: str) -> dict[str, type]:
    """The type of every policy and parameter by name."""
    mechanism = find(name)
    each: tuple[Parameter, ...] = (*mechanism.policies, *mechanism.parameters)
    return {parameter.name: parameter.kind for parameter in each}


def model(name: str) -> list[str]:
    """What the mechanism's own model says of its protocol; empty where it has none."""
    compute = find(name).model
    return compute() if compute else []
