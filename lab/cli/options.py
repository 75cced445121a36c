"""Options that several commands share."""

from __future__ import annotations

from lab.errors import InputError
from lab.units import parse_seconds


def seconds_option(option: str, text: str) -> float:
    """The seconds an option such as `--timeout 90s` means; InputError names the option."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InputError(f"{option} {text}: {error}") from None
