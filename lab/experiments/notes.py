"""What a reader of a finding must know beside its figures: trials and boots that went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from lab.results.run_directory import Boot
from lab.results.trial import Trial


def notes(
    experiment: str, variants: Sequence[str], trials: Sequence[Trial], boots: Sequence[Boot]
) -> tuple[str, ...]:
    """Every failed trial of `variants`, and every warning and error of the boots they need."""
    concerned = [trial for trial in trials if trial.variant in variants]
    numbers = {trial.boot for trial in concerned}
    groups = {"", *(f"{experiment}/{variant}" for variant in variants)}
    told: dict[str, list[int]] = {}
    for boot in boots:
        if boot.error and (boot.number in numbers or boot.group in groups):
            told.setdefault(_line(boot.error), []).append(boot.number)
        if boot.number in numbers:
            for warning in boot.warnings:
                told.setdefault(warning, []).append(boot.number)
    return (
        *(
            f"{trial.variant}, trial {trial.number} of boot {trial.boot}"
            f" {trial.fault or 'is not whole'}: {_line(trial.error or '')}"
            for trial in concerned
            if not trial.is_whole
        ),
        *(f"{_boots(numbers)}: {text}" for text, numbers in told.items()),
    )


def _boots(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"boot {listed}" if len(numbers) == 1 else f"boots {listed}"


def _line(text: str) -> str:
    return text.strip().partition("\n")[0]
