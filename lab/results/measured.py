"""What can be compared: imported files, or the lab's own runs with their fingerprints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lab.errors import InputError
from lab.results import fingerprint
from lab.results.importers.formats import read_files
from lab.results.run_directory import Manifest, RunDirectory
from lab.results.series import Series
from lab.results.trial import Trial


def is_run(path: Path) -> bool:
    try:
        return (path / "run.json").is_file()
    except OSError:
        # Reading it as a file will tell what is wrong with it.
        return False


def of_files(given: str) -> tuple[Series, ...]:
    """The series of a file or directory; of `PATH:LABEL` those of one label, which is taken off.

    `rps.csv:main` has the rows whose variant (or whatever column) is main: so two sides that are
    in one file can be compared. Raises InputError for a label that nothing has.
    """
    path, label = _split(given)
    series = read_files([Path(path)]).series
    if not label:
        return series
    chosen = [each for each in series if any(_is_called(word, label) for word in each.labels)]
    if not chosen:
        known = sorted({word for each in series for word in each.labels})
        raise InputError(
            f"nothing is labelled `{label}`; labels are {', '.join(known) or 'not used here'}",
            where=path,
        )
    return tuple(
        replace(each, labels=tuple(word for word in each.labels if not _is_called(word, label)))
        for each in chosen
    )


def of_runs(base: Path, new: Path) -> tuple[tuple[Series, ...], tuple[Series, ...], list[str]]:
    """Both runs' series, and notes on what they are meant to differ in.

    Raises InputError for runs whose figures must not be compared: another host, accelerator,
    image, or profile.
    """
    before, after = RunDirectory(base), RunDirectory(new)
    obstacles = fingerprint.obstacles(_conditions(before.manifest), _conditions(after.manifest))
    if obstacles:
        raise InputError(
            "runs that cannot be compared: " + "; ".join(obstacles),
            where=f"{base}, {new}",
            hint="repeat one of them under the conditions of the other",
        )
    changed = fingerprint.subjects(before.manifest.fingerprint, after.manifest.fingerprint)
    notes = [f"the {name} is another: what differs may be due to it" for name in changed]
    return of_trials(before.trials()), of_trials(after.trials()), notes


def of_trials(trials: Iterable[Trial]) -> tuple[Series, ...]:
    """A series for each experiment, variant and metric, of the trials that were whole."""
    boots: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(dict)
    kinds = {}
    for trial in trials:
        for metric in trial.metrics if trial.is_whole else ():
            key = (trial.experiment, trial.variant, metric.name)
            kinds[key] = metric
            boots[key].setdefault(trial.boot, []).append(metric.value)
    return tuple(
        Series(
            metric=name,
            unit=kinds[experiment, variant, name].unit,
            better=kinds[experiment, variant, name].direction,
            boots=tuple(tuple(values) for values in found.values()),
            ids=tuple(map(str, found)),
            labels=(experiment, variant),
        )
        for (experiment, variant, name), found in boots.items()
    )


def _conditions(manifest: Manifest) -> Mapping[str, str]:
    return {"profile": manifest.profile, **manifest.fingerprint}


def _split(given: str) -> tuple[str, str]:
    with suppress(OSError):
        if Path(given).exists():
            return given, ""
    path, _, label = given.rpartition(":")
    return (path, label) if path else (given, "")


def _is_called(word: str, label: str) -> bool:
    return label in (word, word.partition("=")[2])
