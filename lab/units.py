"""Quantities as users write them: `768MiB`, `1Gbit`, `30s`. Plain ints and floats inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

MIB = 1024**2

_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_BITS_PER_S = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
_SECONDS: dict[str, int | Fraction] = {"ms": Fraction(1, 1000), "s": 1, "min": 60, "h": 3600}

# Bounded, so that no number a user can write overflows a float or takes long to compute.
_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,9})?"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[A-Za-z/]*)")


def _quantity(text: Any, units: Mapping[str, int | Fraction], example: str) -> Fraction:
    match = _QUANTITY.fullmatch(str(text).strip())
    if not match:
        raise ValueError(f"needs a number with a unit ({', '.join(units)}), such as {example}")
    number, unit = match["number"], match["unit"]
    if unit not in units:
        meant = next((known for known in units if _looks_like(unit, known)), None)
        suggestion = f"did you mean {number}{meant}?" if meant else f"such as {example}"
        fault = f"`{unit}` is not a unit here" if unit else "needs a unit"
        raise ValueError(f"{fault}: {', '.join(units)} are ({suggestion})")
    return Fraction(number) * units[unit]


def _looks_like(unit: str, known: str) -> bool:
    """Whether `unit` is a habitual spelling of `known`: `gb`, `G` and `Gbps` of GiB and Gbit."""
    written = unit.lower().removesuffix("/s")
    spellings = {known, known.replace("iB", "B"), known.replace("iB", "")}
    spellings |= {known.replace("bit", "bps"), known.replace("bit", "b"), known.replace("bit", "")}
    spellings |= {{"s": "sec", "min": "m", "h": "hour"}.get(known, known)}
    return bool(written) and written in {spelling.lower() for spelling in spellings}


def parse_bytes(text: Any) -> int:
    """`"1GiB"` -> 1073741824. Whole bytes only; decimal units are refused as ambiguous."""
    value = _quantity(text, _BYTES, "1GiB")
    if value.denominator != 1 or value <= 0:
        raise ValueError(f"{text} is not a positive whole number of bytes")
    if value >= 2**63:
        raise ValueError(f"{text} is more than a file can hold (8388608TiB)")
    return int(value)


def parse_bits_per_s(text: Any) -> int:
    """`"1Gbit"` -> 1000000000 bits per second (tc's spelling)."""
    value = _quantity(text, _BITS_PER_S, "1Gbit")
    if value < 8:
        raise ValueError(f"{text} is below one byte per second")
    return int(value)


def parse_seconds(text: Any) -> float:
    """`"90s"`, `"24h"` -> seconds."""
    return float(_quantity(text, _SECONDS, "30s"))


def format_bytes(count: int) -> str:
    """The largest binary unit that divides `count`: 1073741824 -> `"1GiB"`."""
    return _format(count, _BYTES)


def format_bits_per_s(count: int) -> str:
    """The largest unit that divides `count`: 1000000000 -> `"1Gbit"`."""
    return _format(count, _BITS_PER_S)


def _format(count: int, units: Mapping[str, int]) -> str:
    unit, size = max(
        ((unit, size) for unit, size in units.items() if count % size == 0),
        key=lambda item: item[1],
    )
    return f"{count // size}{unit}"


# As JSON a quantity is text again: what a model dumps, it loads.
ByteSize = Annotated[
    int,
    BeforeValidator(parse_bytes),
    PlainSerializer(format_bytes, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": rf"^{_NUMBER}\s*([KMGT]iB|B)$"}),
]
BitRate = Annotated[
    int,
    BeforeValidator(parse_bits_per_s),
    PlainSerializer(format_bits_per_s, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": rf"^{_NUMBER}\s*[KMG]?bit$"}),
]


def counted(number: int, noun: str) -> str:
    """`1 boot`, `3 boots`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
