"""What a workload is, and what it hands back."""

from __future__ import annotations

from collections import namedtuple

from datapath_agent.parameters import validate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# `run(run, parameters)` measures and returns a result made by `result()`, or raises Fault.
# `run` is a datapath_agent.run.Run, `parameters` what `prepare` made of the dict that was given:
# the default checks it against the declared `parameters`. `fidelity` is native for the device
# class and driver that one has in production, emulated where software stands in for hardware.
Workload = namedtuple(
    "Workload",
    ["summary", "parameters", "run", "prepare", "fidelity"],
    defaults=[None, "native"],
)


def prepare(workload: Workload, given: Any) -> dict[str, Any]:
    """What to run `workload` with. Raises Fault naming what is wrong with `given`."""
    prepared: dict[str, Any] = (
        workload.prepare(given) if workload.prepare else validate(workload.parameters, given)
    )
    return prepared


HIGHER = "higher"
LOWER = "lower"


def metric(name: str, unit: str, direction: str, value: float) -> dict[str, Any]:
    """One figure; `direction` says which way is better."""
    return {"name": name, "unit": unit, "direction": direction, "value": value}


def result(
    metrics: list[dict[str, Any]],
    *,
    samples: dict[str, list[int]] | None = None,
    raw: Any = None,
    command: str = "",
) -> dict[str, Any]:
    """What a run measured. `raw` is the tool's own output, `command` can be pasted to a shell."""
    return {"metrics": metrics, "samples": samples or {}, "raw": raw, "command": command}
