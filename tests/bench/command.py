"""Benches as commands: a user's mistake and a broken lab are said, with lab.errors' exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from lab.errors import LabError


def run(main: Callable[[], None]) -> NoReturn:
    """Call `main` and exit as the `lab` command does."""
    try:
        main()
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    sys.exit(0)
