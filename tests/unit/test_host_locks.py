"""Locks name their holder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.host.locks import locked

HOLD = """
import sys, time
from pathlib import Path
from lab.deadline import Deadline
from lab.host.locks import locked
with locked(Path(sys.argv[1]), "it", Deadline(5)):
    print("held", flush=True)
    time.sleep(60)
"""


def test_who_waits_in_vain_learns_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "x.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout and holder.stdout.readline() == "held\n"
            with (
                pytest.raises(
                    DeadlineExceeded, match=f"the thing is locked by process {holder.pid} "
                ),
                locked(path, "the thing", Deadline(0.2)),
            ):
                pass
        finally:
            holder.kill()
    # The kernel freed it with its holder.
    with locked(path, "the thing", Deadline(2)):
        pass


def test_an_error_inside_is_not_taken_for_a_lock_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "x.lock", "it", Deadline(1)):
        _ = 1 / 0
    with locked(tmp_path / "x.lock", "it", Deadline(1)):
        pass
