"""What a mechanism is: the user-space shape of a published change to a datapath.

A mechanism has policies, one axis each: the behaviour before the change, the one after it, and
those in between. A preset names a whole set of them. Everything else is a workload parameter.
"""

from __future__ import annotations

from collections import namedtuple

from datapath_agent.parameters import Parameter, validate
from datapath_agent.protocol import Fault
from datapath_agent.workload import Workload, result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from datapath_agent.measurement.histogram import Histogram
    from datapath_agent.run import Run

# `change` names the published change, `policies` and `parameters` are tuples of Parameter,
# `presets` maps a name to values of policies. `check(policy, parameters)` raises
# Fault("inexpressible") for what cannot show the mechanism; it touches nothing.
# `run(run, policy, parameters)` measures and returns `mechanism_result()`; `serve`, of the same
# shape, is the other end of a mechanism that needs one, and takes `server_parameters` in the
# place of `parameters`. A server takes the same policies: both ends are on the same side of a
# change. `model()` returns lines of text: a check of the mechanism's protocol that needs no guest.
Mechanism = namedtuple(
    "Mechanism",
    [
        "summary", "change", "policies", "parameters", "presets", "check", "run",
        "serve", "server_parameters", "model",
    ],
    defaults=[None, (), None],
)  # fmt: skip

# What a mechanism's own code costs: the mean over null runs in microseconds an operation, and
# the spread between those runs (largest less smallest mean).
Harness = namedtuple("Harness", ["cost_us", "spread_us", "runs", "what"])

SERVER_SUFFIX = "-server"
FIDELITIES = ("native", "emulated", "model")

NULL_S = Parameter(
    "null_s", float, 0.3, "seconds of each null run, which measures the harness alone", 0.05, 60
)
NULL_RUNS = 3


def mechanism_result(
    metrics: list[dict[str, Any]],
    *,
    counters: dict[str, float],
    fidelity: str,
    layer: str,
    harness: Harness,
    samples: dict[str, list[int]] | None = None,
    histograms: dict[str, Histogram] | None = None,
    lines: tuple[str, ...] = (),
    raw: Any = None,
) -> dict[str, Any]:
    """What a run of a mechanism measured.

    `counters` are the mechanism's own evidence (hops a request, kicks a request), `layer` says
    in words what a claim from this run rests on, `lines` is the same result in the formats of
    the published change's own tool.
    """
    if fidelity not in FIDELITIES:
        raise ValueError(f"fidelity is one of {', '.join(FIDELITIES)}, not {fidelity}")
    return {
        **result(metrics, samples=samples, raw=raw),
        "counters": counters,
        "fidelity": fidelity,
        "layer": layer,
        "harness": harness._asdict(),
        "histograms": {name: each.as_dict() for name, each in (histograms or {}).items()},
        "lines": list(lines),
    }


def measure_harness(what: str, once: Callable[[], tuple[int, float]]) -> Harness:
    """The harness' cost from null runs; `once` makes one and returns (operations, seconds)."""
    costs_us = []
    for _ in range(NULL_RUNS):
        operations, elapsed_s = once()
        if not operations:
            raise Fault("internal", f"a null run of {what} completed no operation")
        costs_us.append(elapsed_s * 1e6 / operations)
    return Harness(
        sum(costs_us) / len(costs_us), max(costs_us) - min(costs_us), len(costs_us), what
    )


def workloads(name: str, mechanism: Mechanism) -> dict[str, Workload]:
    """A mechanism as workloads: one of its own name, and one for its other end if it has one."""
    found = {name: _workload(name, mechanism, mechanism.parameters, mechanism.run)}
    if mechanism.serve:
        found[name + SERVER_SUFFIX] = _workload(
            name, mechanism, mechanism.server_parameters, mechanism.serve
        )
    return found


def _workload(
    name: str, mechanism: Mechanism, parameters: tuple[Parameter, ...], run: Callable[..., Any]
) -> Workload:
    preset = Parameter("preset", str, "", "a named set of policies; others given here come on top")

    def prepare(given: Any) -> dict[str, Any]:
        checked = split(mechanism, parameters, given)
        if run is mechanism.run:
            mechanism.check(checked["policy"], checked["parameters"])
        return checked

    def execute(running: Run, checked: dict[str, Any]) -> dict[str, Any]:
        try:
            outcome: dict[str, Any] = run(running, checked["policy"], checked["parameters"])
        except Fault as fault:
            if fault.partial:
                fault.partial = {**fault.partial, "mechanism": name, **checked}
            raise
        return {**outcome, "mechanism": name, **checked}

    return Workload(mechanism.summary, (preset, *mechanism.policies, *parameters), execute, prepare)


def split(mechanism: Mechanism, parameters: tuple[Parameter, ...], given: Any) -> dict[str, Any]:
    """`given` as {"preset", "policy", "parameters"}, complete. Raises Fault for a bad one."""
    if not isinstance(given, dict):
        raise Fault("bad-parameter", "parameters are a JSON object", field="parameters")
    rest = dict(given)
    preset = rest.pop("preset", "")
    if preset != "" and not (isinstance(preset, str) and preset in mechanism.presets):
        known = ", ".join(mechanism.presets) or "none"
        raise Fault(
            "bad-parameter", f"there are {known}, got {preset!r:.60}", field="parameters.preset"
        )
    complete = validate(
        (*mechanism.policies, *parameters), {**mechanism.presets.get(preset, {}), **rest}
    )
    axes = {axis.name for axis in mechanism.policies}
    return {
        "preset": preset,
        "policy": {name: value for name, value in complete.items() if name in axes},
        "parameters": {name: value for name, value in complete.items() if name not in axes},
    }
