"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from lab.errors import InputError
from lab.units import parse_seconds

ACCELERATORS = ("auto", "kvm", "tcg")
PROFILES = ("quick", "full")


def accelerator_option(text: str) -> Literal["auto", "kvm", "tcg"]:
    """What `--accel` names; InputError for anything else."""
    if text not in ACCELERATORS:
        raise InputError(f"--accel {text}: it is auto, kvm or tcg")
    return cast("Literal['auto', 'kvm', 'tcg']", text)


def profile_option(text: str) -> Literal["quick", "full"]:
    """What `--profile` names; InputError for anything else."""
    if text not in PROFILES:
        raise InputError(f"--profile {text}: it is quick or full")
    return cast("Literal['quick', 'full']", text)


def seconds_option(option: str, text: str) -> float:
    """The seconds an option such as `--timeout 90s` means; InputError names the option."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InputError(f"{option} {text}: {error}") from None


def check_writable(option: str, path: Path) -> None:
    """Raise InputError where nothing could be written, before there is anything to write."""
    existed = path.exists()
    try:
        path.open("a").close()
    except OSError as error:
        raise cannot_write(option, path, error) from None
    if not existed:
        path.unlink()


def cannot_write(option: str, path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot write: {error.strerror}",
        where=str(path),
        hint=f"name a file in a directory of your own with {option}",
    )
