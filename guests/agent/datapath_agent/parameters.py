"""Parameters of workloads: declared once, checked before anything runs."""

from __future__ import annotations

from collections import namedtuple

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A parameter without a default has to be given.
REQUIRED = object()

# `kind` is the Python type. `minimum` and `maximum` bound numbers, `choices` lists all values
# that are allowed (empty: any). Units are part of the name.
Parameter = namedtuple(
    "Parameter",
    ["name", "kind", "default", "help", "minimum", "maximum", "choices"],
    defaults=[None, None, ()],
)

PORT_TO_SERVE = Parameter("port", int, 0, "port to listen on, 0 for a free one", 0, 65535)
PORT_OF_PEER = Parameter("port", int, REQUIRED, "port that the server reported as ready", 1, 65535)
RUNTIME_S = Parameter("runtime_s", float, 2.0, "seconds to measure", 0.1, 86400)


def validate(parameters: tuple[Parameter, ...], given: Any) -> dict[str, Any]:
    """All parameters with defaults filled in. Raises Fault naming the first one at fault."""
    if not isinstance(given, dict):
        raise Fault("bad-parameter", "parameters are a JSON object", field="parameters")
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known))
            raise Fault("bad-parameter", f"unknown; there are {listed}", field=f"parameters.{name}")
    return {
        name: _value(parameter, given.get(name, parameter.default))
        for name, parameter in known.items()
    }


def _value(parameter: Parameter, value: Any) -> Any:
    def wrong(message: str) -> Fault:
        return Fault("bad-parameter", message, field=f"parameters.{parameter.name}")

    if value is REQUIRED:
        raise wrong("has to be given")
    if parameter.kind is float and type(value) is int:
        value = float(value)
    if type(value) is not parameter.kind:
        raise wrong(f"needs {_words(parameter.kind)}, got {value!r:.60}")
    if parameter.choices and value not in parameter.choices:
        raise wrong(f"is one of {', '.join(map(str, parameter.choices))}, got {value!r:.60}")
    # Written so that NaN fails.
    if parameter.minimum is not None and not value >= parameter.minimum:
        raise wrong(f"is at least {parameter.minimum}, got {value}")
    if parameter.maximum is not None and not value <= parameter.maximum:
        raise wrong(f"is at most {parameter.maximum}, got {value}")
    if parameter.kind is str and ("\0" in value or value.startswith("-")):
        raise wrong("must not start with a dash or contain NUL")
    return value


def _words(kind: type) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[kind]
