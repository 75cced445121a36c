"""The `lab` command. Each verb imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer
import typer.core

from lab.cli import (
    access,
    calibrate,
    check,
    doctor,
    history,
    image,
    judge,
    lifecycle,
    report,
    results,
    run,
    topology,
    validate,
)
from lab.errors import Exit, LabError


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        # typer would make a silent exit of it, with the code of a command that was interrupted.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort() from None


app = typer.Typer(
    cls=_Commands,
    help="QEMU/KVM integration lab: real guests for people who change datapaths.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(lifecycle.up)
app.command()(lifecycle.down)
app.command()(lifecycle.status)
app.command()(lifecycle.reap)
app.command()(check.check)
app.command()(run.run)
app.command()(validate.validate)
app.command()(calibrate.calibrate)
app.command()(judge.judge)
app.command()(report.report)
app.command()(history.history)
app.command("import")(results.import_)
app.command()(results.compare)
app.command()(access.ssh)
app.command("exec")(access.exec_)
app.command()(access.console)
app.command()(doctor.doctor)
app.add_typer(image.app, name="image", help="Build, list and prune guest images.")
app.add_typer(topology.app, name="topology", help="Validate, show and describe topologies.")


@app.callback()
def options(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every host command that is run.")
    ] = False,
) -> None:
    if verbose:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("lab").setLevel(logging.DEBUG)


def main() -> None:
    """Run the command line; the exit code is one of lab.errors.Exit, or a signal's (128 + n)."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run_command_line())


def run_command_line() -> int:
    """One command line, from sys.argv: its exit code, errors said on stderr."""
    try:
        return int(app(standalone_mode=False) or Exit.OK)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return int(error.exit_code)
    except typer.TyperException as error:
        # Empty where no arguments were given: the help has been shown instead.
        if message := error.format_message():
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "lab"
            print(f"lab: {message}\n  next: `{command} --help`", file=sys.stderr)
        return int(Exit.BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        print("lab: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return 128 + signal.SIGPIPE


def _terminate(_number: int, _frame: FrameType | None) -> None:
    # Unwinds like an error, so that what is half made is removed.
    sys.exit(128 + signal.SIGTERM)
