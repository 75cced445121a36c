"""The JSON schema of a topology, for editors that complete and check while one types."""

from __future__ import annotations

from typing import Any

from lab.topology.model import Topology


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12, from the model; it says the same as the model but for lint's rules."""
    made = Topology.model_json_schema()
    _close(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _close(node: Any) -> None:
    """Refuse names that match no pattern: pydantic leaves that to its own validation."""
    if isinstance(node, dict):
        if "patternProperties" in node:
            node["additionalProperties"] = False
        for value in node.values():
            _close(value)
    elif isinstance(node, list):
        for value in node:
            _close(value)
