"""A run on disk: what was asked for, every boot and every trial, each written when it is taken.

<run>/run.json         the manifest, replaced atomically
<run>/topology.yaml    the topology as it was measured
<run>/trials.jsonl     a trial a line, appended and synced
<run>/boots.jsonl      a boot a line
<run>/boots/N/         consoles and kernel logs of boot N
<run>/report.*         what was made of it: html, json, junit.xml

A run that was killed has at worst a torn last line, which is dropped when it is read, and cut off
before the next one is appended. Any other damage is an InputError that names file and line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.host.locks import locked
from lab.results.trial import Trial, trial_from_dict

FORMAT = 1
LOCK_S = 5.0

T = TypeVar("T")


@dataclass(frozen=True)
class Manifest:
    """What a run is of. `source` is the topology file, `command` what repeats the run."""

    id: str
    topology: str
    source: str
    profile: Literal["quick", "full"]
    seed: int
    created: str
    command: str
    accelerator: str
    fingerprint: Mapping[str, str]
    sequential: bool = False
    only: tuple[str, ...] = ()
    format: int = FORMAT


@dataclass(frozen=True)
class Boot:
    """One boot that was made. `group` says which topology patch it has, "" for none.

    `noise` is the host's as the boot began (see lab.experiments.noise), `error` why the boot or
    the rest of its trials came to nothing.
    """

    number: int
    planned_boot: int
    group: str
    started: str
    elapsed_s: float = 0.0
    phases_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    noise: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str | None = None


class CannotWrite(LabError):
    """The run's disk takes no more: what was measured before is kept."""


class RunDirectory:
    """A run that is being written or read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.topology_path = path / "topology.yaml"
        self._trials_path = path / "trials.jsonl"
        self._boots_path = path / "boots.jsonl"

    @classmethod
    def create(cls, path: Path, manifest: Manifest, topology_text: str) -> RunDirectory:
        """A new run. Raises InputError where there is one already or none can be made."""
        run = cls(path)
        try:
            path.mkdir(parents=True)
            run.topology_path.write_text(topology_text)
            run._write_manifest(manifest)
        except FileExistsError:
            raise InputError(
                "there is a run already", where=str(path), hint=f"continue it with --resume {path}"
            ) from None
        except OSError as error:
            raise InputError(f"cannot keep a run here: {error.strerror}", where=str(path)) from None
        return run

    @property
    def manifest(self) -> Manifest:
        """Raises InputError for a directory without one, a damaged one, or one of a newer lab."""
        path = self.path / "run.json"
        try:
            document = json.loads(path.read_text())
            if int(document["format"]) > FORMAT:
                raise InputError(
                    f"a run of format {document['format']}; this lab reads up to {FORMAT}",
                    where=str(path),
                    hint="use the lab that wrote it, or a newer one",
                )
            return TypeAdapter(Manifest).validate_python(document)
        except OSError as error:
            raise InputError(
                f"no run: {error.strerror}", where=str(path), hint="give a run's directory"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"not a run's manifest: {_first_line(error)}", where=str(path)
            ) from None

    def trials(self) -> list[Trial]:
        """Every trial that was finished, whole or not, in the order of their time."""
        return list(_lines(self._trials_path, trial_from_dict))

    def boots(self) -> list[Boot]:
        """Every boot that was made, its last state."""
        boots = _lines(self._boots_path, TypeAdapter(Boot).validate_python)
        return list({boot.number: boot for boot in boots}.values())

    def log_directory(self, boot: int) -> Path:
        return self.path / "boots" / str(boot)

    def append_trial(self, trial: Trial) -> None:
        _append(self._trials_path, trial.as_dict())

    def append_boot(self, boot: Boot) -> None:
        """Again for the same number: the boot's new state."""
        _append(self._boots_path, asdict(boot))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Sole right to append. Raises LabError while another process has it."""
        with locked(self.path / "lock", f"run {self.path}", Deadline(LOCK_S)):
            for path in (self._trials_path, self._boots_path):
                _cut_torn_line(path)
            yield

    def _write_manifest(self, manifest: Manifest) -> None:
        partial = self.path / "run.json.partial"
        partial.write_text(json.dumps(asdict(manifest), indent=1))
        partial.rename(self.path / "run.json")


def _append(path: Path, document: Mapping[str, Any]) -> None:
    line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
    before = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab", buffering=0) as file:
            written = file.write(line)
            if written != len(line):
                raise OSError(0, "the disk took a part of it only")
            os.fsync(file.fileno())
    except OSError as error:
        if path.exists():
            os.truncate(path, before)
        raise CannotWrite(
            f"cannot write a result: {error.strerror}",
            where=str(path),
            hint=f"make room, then go on with --resume {path.parent}: what was measured is kept",
        ) from error


def _cut_torn_line(path: Path) -> None:
    if path.exists():
        text = path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.truncate(path, whole)


def _lines(path: Path, read: Callable[[Any], T]) -> Iterator[T]:
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    # What follows the last newline was being written when the run was killed.
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield read(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"a damaged result: {_first_line(error)}",
                where=f"{path}:{number}",
                hint="remove the line to go on without it",
            ) from None


def _first_line(error: Exception) -> str:
    """What is wrong, in a line: pydantic would tell of every field, and of its own web page."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
