"""Quantities as users write them: `768MiB`, `1Gbit`, `30s`. Plain ints and floats inside."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_BYTES = {"B": 1} | {f"{p}iB": 1024**n for n, p in enumerate("KMGT", start=1)}
_BITS_PER_S = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def _quantity(text: Any, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", str(text).strip())
    if not match or match[2] not in units:
        raise ValueError(f"needs a number with a unit ({', '.join(units)}), such as {example}")
    return float(match[1]) * units[match[2]]


def parse_bytes(text: Any) -> int:
    """`"1GiB"` -> 1073741824. Whole bytes only; decimal units are refused as ambiguous."""
    value = _quantity(text, dict(_BYTES), "1GiB")
    if value != int(value) or value <= 0:
        raise ValueError(f"{text} is not a positive whole number of bytes")
    return int(value)


def parse_bits_per_s(text: Any) -> int:
    """`"1Gbit"` -> 1000000000 bits per second (tc's spelling)."""
    value = _quantity(text, dict(_BITS_PER_S), "1Gbit")
    if value < 8:
        raise ValueError(f"{text} is below one byte per second")
    return int(value)


def parse_seconds(text: Any) -> float:
    """`"90s"`, `"24h"` -> seconds."""
    return _quantity(text, _SECONDS, "30s")


def format_bytes(count: int) -> str:
    """The largest binary unit that divides `count`: 1073741824 -> `"1GiB"`."""
    for unit, size in reversed(_BYTES.items()):
        if count % size == 0:
            return f"{count // size}{unit}"
    raise AssertionError("B divides everything")


ByteSize = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?\s*([KMGT]iB|B)$"}),
]
BitRate = Annotated[
    int,
    BeforeValidator(parse_bits_per_s),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?\s*[KMG]?bit$"}),
]
