"""An unpacked Debian system in a directory, by mmdebstrap."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.deadline import Deadline
from lab.errors import LabError
from lab.images.recipe import DebianRecipe
from lab.process import CommandFailed, run, tail
from lab.progress import Step

# Without a mirror, mmdebstrap uses the distribution's own default, and apt's proxy settings.
_MMDEBSTRAP = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]

# A namespace of its own, which the kernel ends together with the lab: no killed build ever
# leaves apt or dpkg writing, or anything mounted.
_LEASHED = ["setpriv", "--pdeathsig", "KILL"]
_LEASHED += ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]


def bootstrap_argv(recipe: DebianRecipe, root: Path, log: Path) -> list[str | Path]:
    """The command that fills `root`."""
    packages = [*recipe.packages, *recipe.kernels.values()]
    return [
        *_LEASHED,
        *_MMDEBSTRAP,
        "--verbose",
        f"--logfile={log}",
        f"--include={','.join(packages)}",
        "--aptopt=Acquire::Languages none",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in recipe.exclude),
        recipe.suite,
        root,
    ]


def bootstrap(recipe: DebianRecipe, root: Path, *, deadline: Deadline, step: Step) -> None:
    """Fill the directory `root`, which does not exist yet. Raises LabError with the log's end."""
    log = root.with_name("bootstrap.log")
    log.touch()
    try:
        with _followed(log, step):
            run(bootstrap_argv(recipe, root, log), deadline=deadline, env={"LC_ALL": "C"})
    except CommandFailed as error:
        raise LabError(
            f"cannot build image {recipe.name}: mmdebstrap failed",
            detail=tail(log.read_text(errors="replace")) or error.detail,
            elapsed_s=error.elapsed_s,
            hint="if it is the network, run the same command again once packages can be fetched",
        ) from error
    log.unlink()


@contextmanager
def _followed(log: Path, step: Step) -> Iterator[None]:
    """Show on `step` what `log` says while the body runs."""
    over = threading.Event()

    def follow() -> None:
        with log.open(errors="replace") as lines:
            for note in notes(_growing(lines, over)):
                step.note(note)

    follower = threading.Thread(target=follow, name="follow bootstrap.log", daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()


def _growing(lines: Iterable[str], over: threading.Event) -> Iterator[str]:
    while True:
        yield from lines
        if over.wait(0.5):
            return


def notes(lines: Iterable[str], *, every: int = 25) -> Iterator[str]:
    """What a user wants to know of mmdebstrap's output: its phase, and how far it got."""
    counts = {"Unpacking": 0, "Setting up": 0}
    for line in lines:
        if phase := re.match(r"I: (.+?)\.\.\.", line):
            yield phase[1]
        elif action := re.match("|".join(counts), line):
            counts[action[0]] += 1
            if counts[action[0]] % every == 0:
                yield f"{action[0].lower()} packages ({counts[action[0]]})"
