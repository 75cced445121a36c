"""The lines on the channel: one JSON object a line, requests in, events out.

Requests: {"id": ..., "op": "hello"}, {"id": ..., "op": "run", "workload": ..., "parameters":
{...}, "deadline_s": ...}, {"id": <that of the run>, "op": "stop"}. Events repeat the id. A run
ends with exactly one of `result`, `stopped` and `error`; before it come any number of `ready`,
`progress` and `sample` events.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_REQUEST_BYTES = 1 << 20


class Fault(Exception):
    """Something the agent refuses or failed to do, told to the host as an `error` event.

    `kind` is one of bad-request, unknown-op, unknown-workload, bad-parameter, inexpressible (a
    policy that cannot show its mechanism that way), refused, missing-tool, missing-device,
    tool-failed, bad-output, no-answer, peer-gone, internal. `field` names the part of the
    request that is at fault, `detail` is evidence such as the last lines of a tool's stderr.
    `partial` is the result of what was measured until then, for the workload to set.
    """

    partial: dict[str, Any] | None = None
    # What the other members of a team have reported, where one of them raised this.
    reports: dict[str, Any] = {}

    def __init__(
        self, kind: str, message: str, *, field: str | None = None, detail: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.field = field
        self.detail = detail

    def fields(self) -> dict[str, Any]:
        """The fields of its `error` event, without those that are absent."""
        told = {
            "kind": self.kind,
            "message": self.message,
            "field": self.field,
            "detail": self.detail,
        }
        return {name: value for name, value in told.items() if value is not None}


def encode(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """One request. Raises Fault for anything but a JSON object."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Fault("bad-request", f"not a line of JSON: {error}") from None
    if not isinstance(request, dict):
        raise Fault("bad-request", f"a request is a JSON object, not {type(request).__name__}")
    return request
