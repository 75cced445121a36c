"""`lab topology`: what a file says, whether it can work, and how it looks."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lab.errors import Exit, InputError

app = typer.Typer(no_args_is_help=True)


class Format(StrEnum):
    TREE = "tree"
    MERMAID = "mermaid"


@app.command()
def validate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the problems as JSON.")] = False,
) -> None:
    """Check topologies without a host: what they say, and whether any host could run it."""
    from lab.images.lookup import look_up
    from lab.topology.lint import check
    from lab.topology.load import load
    from lab.topology.problem import Problem, TopologyError

    problems: list[Problem] = []
    for path in paths:
        try:
            loaded = load(path)
            check(loaded, None)
            look_up(loaded)
        except TopologyError as error:
            problems += error.problems
        except InputError as error:
            problems.append(Problem(error.where or str(path), error.message, error.hint))
    if as_json:
        found = [vars(problem) for problem in problems]
        typer.echo(json.dumps({"ok": not problems, "problems": found}, indent=1))
        raise typer.Exit(Exit.BAD_INPUT if problems else Exit.OK)
    if problems:
        raise TopologyError(problems)
    for path in paths:
        typer.echo(f"{path}: ok")


@app.command()
def show(
    path: Annotated[Path, typer.Argument(show_default=False)],
    format: Annotated[Format, typer.Option(help="A tree, or Mermaid text.")] = Format.TREE,
) -> None:
    """Draw a topology: guests with their devices, and the segments between them."""
    from lab.topology.lint import check
    from lab.topology.load import load
    from lab.topology.show import mermaid, tree

    loaded = load(path)
    check(loaded, None)
    render = {Format.TREE: tree, Format.MERMAID: mermaid}[format]
    typer.echo(render(loaded.topology), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of topologies, for editors."""
    from lab.topology.schema import schema as make

    typer.echo(json.dumps(make(), indent=1))
