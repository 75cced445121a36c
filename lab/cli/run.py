"""`lab run`: a mechanism or workload in the guests of a lab, presets side by side."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from lab.cli.options import cannot_write, check_writable, seconds_option
from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import InputError, LabError
from lab.units import counted

if TYPE_CHECKING:
    from lab.guest.agent_client import Result

Given = Mapping[str, Any]
Runs = Mapping[str, Sequence["Result"]]


@dataclass(frozen=True)
class Place:
    """Where runs were made; `peer` is None for what has no other end."""

    lab: str
    guest: str
    peer: str | None
    accelerator: str

    def __str__(self) -> str:
        guests = self.guest if self.peer is None else f"{self.guest} to {self.peer}"
        return f"lab {self.lab}, {guests}"


def run(
    workload: Annotated[
        str | None, typer.Argument(help="A mechanism or workload: `lab run --list`.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(help="Policies and parameters: NAME=VALUE ...")
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(help="A named set of policies; several are run in turn and compared."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each preset, interleaved.")] = 1,
    guest: Annotated[str | None, typer.Option(help="The guest that runs it.")] = None,
    peer: Annotated[
        str | None, typer.Option(help="Its other end; the same guest may be both.")
    ] = None,
    lab: Annotated[str | None, typer.Option("--lab", help="The lab, where several are up.")] = None,
    timeout: Annotated[str, typer.Option(help="The deadline of each run.")] = "15min",
    out: Annotated[Path | None, typer.Option(help="Write every run, with samples, here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    describe: Annotated[bool, typer.Option("--list", help="Describe all there is to run.")] = False,
) -> int:
    """Run a mechanism or workload in the guests, and show what it counted and measured."""
    from lab.guest import catalogue
    from lab.guest.agent_client import AgentError
    from lab.progress import Progress
    from lab.running import find
    from lab.workload import choose_ends, run_workload

    if describe:
        print(json.dumps(catalogue.describe(), indent=1) if as_json else catalogue.as_text())
        return 0
    if not workload:
        raise InputError(
            f"name what to run: {', '.join(catalogue.names())}", hint="`lab run --list`"
        )
    runnable = catalogue.find(workload)
    given = parse_settings(workload, settings or [])
    sides = {name: {**({"preset": name} if name else {}), **given} for name in preset or [""]}
    for side in sides.values():
        runnable.check_asked(side)
    timeout_s = seconds_option("--timeout", timeout)
    if out:
        check_writable("--out", out)
    done: dict[str, list[Result]] = {name: [] for name in sides}
    progress = Progress()
    with find(lab) as running:
        ends = choose_ends(running, guest, peer)
        place = Place(
            running.record.identity.name,
            ends.here.name,
            ends.there.name if runnable.server else None,
            running.accelerator,
        )
        running.settle()
        try:
            for number in range(1, runs + 1):
                for name, results in done.items():
                    title = f"{workload} {name or 'as given'} {number}/{runs}"
                    with progress.step(title) as step:
                        results.append(
                            run_workload(
                                running,
                                workload,
                                sides[name],
                                guest=guest,
                                peer=peer,
                                deadline=Deadline(timeout_s),
                                on_progress=step.note,
                            )
                        )
        except LabError as error:
            if ran_out_of_time(error):
                error.hint = f"give each run longer than --timeout {timeout}"
            if isinstance(error, AgentError) and error.partial:
                done[name].append(error.partial)
            if any(done.values()):
                _show(place, done, out=out, as_json=as_json)
            raise
        _show(place, done, out=out, as_json=as_json)
    for line in catalogue.model(workload) if not as_json else []:
        print(line)
    return 0


def ran_out_of_time(error: LabError) -> bool:
    """Whether the run's own deadline ended it, on this side or on the agent's."""
    from lab.guest.agent_client import AgentError

    if isinstance(error, AgentError):
        return error.kind == "deadline"
    return isinstance(error, DeadlineExceeded)


def parse_settings(workload: str, settings: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE words as the declared types; InputError names the first bad one."""
    from lab.guest import catalogue

    kinds = catalogue.find(workload).kinds
    given: dict[str, Any] = {}
    for word in settings:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise InputError(
                f"{word}: policies and parameters are given as NAME=VALUE",
                hint="`lab run --list` describes them",
            )
        if name in given:
            raise InputError(
                f"{name} is given twice: {given[name]}, then {text}",
                hint="give it once; several presets are compared by several --preset",
            )
        given[name] = text if kinds.get(name) is str else _value(word, text)
    return given


def _value(word: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"{word}: {text} is no number, truth value or text") from None


def _show(place: Place, done: Runs, *, out: Path | None, as_json: bool) -> None:
    document = as_document(place, done)
    if as_json:
        print(json.dumps(document))
    else:
        print_table(place, done)
    if out:
        try:
            out.write_text(json.dumps(document))
        except OSError as error:
            raise cannot_write("--out", out, error) from None


def as_document(place: Place, done: Runs) -> dict[str, Any]:
    """Every run in full, in the order of presets."""
    return {
        **asdict(place),
        "runs": [asdict(result) for results in done.values() for result in results],
    }


def print_table(place: Place, done: Runs) -> None:
    """Metrics, the mechanism's own counters and its harness, one column a preset."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    shown = {name: results for name, results in done.items() if results}
    first = next(iter(shown.values()))[0]
    table = Table(title=f"{first.workload}, median (lowest .. highest)", box=SIMPLE)
    table.add_column("")
    for name, results in shown.items():
        table.add_column(_heading(name, results), justify="right")

    def add(label: str, value: Callable[[Result], float | None]) -> None:
        table.add_row(label, *(_figures(results, value) for results in shown.values()))

    for metric in first.metrics:
        add(f"{metric.name}, {metric.unit}", _metric(metric.name))
    if first.mechanism:
        table.add_section()
        counters = first.mechanism.counters
        nonzero = [name for name in counters if _ever_counted(name, shown)]
        for counter in nonzero:
            add(counter, _counter(counter))
        table.add_section()
        add("harness, us an operation", _harness_cost_us)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    print(f"{place}; accelerator {place.accelerator}, fidelity {first.fidelity}")
    if first.mechanism:
        if zeros := len(counters) - len(nonzero):
            print(f"{counted(zeros, 'counter')} at 0 in every run left out; --json has all")
        print(f"layer: {first.mechanism.layer}")
        print(f"harness: {first.mechanism.harness.what}")
    for results in shown.values():
        for result in results:
            for line in result.mechanism.lines if result.mechanism else ():
                print(line)


def _heading(preset: str, results: Sequence[Result]) -> str:
    cut = sum(result.partial for result in results)
    runs = counted(len(results), "run")
    return f"{preset or 'as given'}, {runs}" + (f", {cut} cut short" if cut else "")


def _metric(name: str) -> Callable[[Result], float | None]:
    return lambda result: next((each.value for each in result.metrics if each.name == name), None)


def _counter(name: str) -> Callable[[Result], float | None]:
    return lambda result: result.mechanism.counters.get(name) if result.mechanism else None


def _ever_counted(name: str, done: Runs) -> bool:
    return any(_counter(name)(result) for results in done.values() for result in results)


def _harness_cost_us(result: Result) -> float | None:
    return result.mechanism.harness.cost_us if result.mechanism else None


def _figures(results: Sequence[Result], value: Callable[[Result], float | None]) -> str:
    values = [figure for figure in map(value, results) if figure is not None]
    if not values:
        return "-"
    middle = f"{statistics.median(values):,.5g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.5g} .. {max(values):,.5g})"
