"""What the agent can run: mechanisms and workloads, read from its own declarations.

A name stands for both ends: `iperf3` is the agent's iperf3-client, with iperf3-server beside it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datapath_agent import mechanisms
from datapath_agent.mechanism import SERVER_SUFFIX
from datapath_agent.parameters import REQUIRED, Parameter
from datapath_agent.protocol import Fault
from datapath_agent.registry import WORKLOADS, mechanism_lines, workload_lines
from datapath_agent.registry import find as find_workload
from datapath_agent.workload import Workload, prepare

from lab.errors import InputError

CLIENT_SUFFIX = "-client"
# What a client is told of its other end.
FILLED_IN = ("address", "port")


@dataclass(frozen=True)
class Runnable:
    """Something to run in a guest. `client` and `server` are the agent's names for its ends."""

    name: str
    client: str
    server: str | None

    @property
    def kinds(self) -> dict[str, type]:
        """The type of every policy and parameter by name."""
        return {each.name: each.kind for each in find_workload(self.client).parameters}

    @property
    def filled_in(self) -> tuple[str, ...]:
        """The parameters that lab.workload gives, unless the user does."""
        return FILLED_IN if self.server else ()

    @property
    def fidelity(self) -> str:
        """What it says of itself; a result of a mechanism says so of each run."""
        return str(find_workload(self.client).fidelity)

    def of_server(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """That part of `given` which the server takes, too."""
        assert self.server
        taken = {each.name for each in find_workload(self.server).parameters}
        return {name: value for name, value in given.items() if name in taken}

    def check_asked(self, given: Mapping[str, Any]) -> None:
        """`check` before it is known where the other end is: what `lab run` fills in is made up."""
        if self.server:
            given = {"address": "127.0.0.1", "port": 1, **given}
        self.check(given)

    def check(self, given: Mapping[str, Any]) -> None:
        """Raises InputError for what the agent would refuse without looking at its guest."""
        workload: Workload = find_workload(self.client)
        try:
            prepare(workload, dict(given))
        except Fault as fault:
            raise InputError(
                f"{(fault.field or self.name).removeprefix('parameters.')}: {fault.message}",
                where=self.name,
                hint="`lab run --list` describes policies, presets and parameters",
            ) from None


def names() -> list[str]:
    """Mechanisms first."""
    workloads = {name.removesuffix(CLIENT_SUFFIX).removesuffix(SERVER_SUFFIX) for name in WORKLOADS}
    return [*mechanisms.names(), *sorted(workloads)]


def find(name: str) -> Runnable:
    """What is called so; InputError if there is nothing."""
    if mechanism := mechanisms.find(name):
        return Runnable(name, name, name + SERVER_SUFFIX if mechanism.serve else None)
    if name + CLIENT_SUFFIX in WORKLOADS:
        return Runnable(name, name + CLIENT_SUFFIX, name + SERVER_SUFFIX)
    if name in WORKLOADS and name in names():
        return Runnable(name, name, None)
    close = difflib.get_close_matches(name, names(), 1)
    raise InputError(
        f"there is nothing to run called {name}; there are {', '.join(names())}",
        hint=f"did you mean {close[0]}?" if close else "`lab run --list` describes them",
    )


def describe() -> list[dict[str, Any]]:
    """Everything by the name it is run by, with what is to be given; `default` is absent where
    something is required."""
    return [_description(name) for name in names()]


def as_text() -> str:
    """`describe()` to be read, in the agent's own words."""
    lines: list[str] = []
    for name in names():
        runnable = find(name)
        if mechanism := mechanisms.find(name):
            lines += mechanism_lines(name, mechanism, runnable.filled_in)
        else:
            lines += workload_lines(name, find_workload(runnable.client), runnable.filled_in)
    return "\n".join(lines)


def _description(name: str) -> dict[str, Any]:
    runnable = find(name)
    workload: Workload = find_workload(runnable.client)
    filled_in = runnable.filled_in
    if mechanism := mechanisms.find(name):
        return {
            "name": name,
            "summary": mechanism.summary,
            "change": mechanism.change,
            "policies": [_parameter(each) for each in mechanism.policies],
            "presets": mechanism.presets,
            "parameters": [
                _parameter(each) for each in mechanism.parameters if each.name not in filled_in
            ],
        }
    return {
        "name": name,
        "summary": workload.summary,
        "fidelity": runnable.fidelity,
        "parameters": [
            _parameter(each) for each in workload.parameters if each.name not in filled_in
        ],
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described = {"name": parameter.name, "type": parameter.kind.__name__, "help": parameter.help}
    if parameter.default is not REQUIRED:
        described["default"] = parameter.default
    if parameter.choices:
        described["choices"] = list(parameter.choices)
    elif parameter.minimum is not None:
        described.update(minimum=parameter.minimum, maximum=parameter.maximum)
    return described


def model(name: str) -> list[str]:
    """What a mechanism's own model says of its protocol; empty where it has none."""
    mechanism = mechanisms.find(name)
    return mechanism.model() if mechanism and mechanism.model else []
