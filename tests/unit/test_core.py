"""The small parts that everything uses: deadlines, errors, processes, progress, consoles."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import InputError, LabError
from lab.guest.console import ConsoleLog
from lab.process import CommandFailed, run
from lab.progress import Progress


def test_a_nested_deadline_never_outlives_its_parent() -> None:
    assert Deadline(0.1).within(10).remaining_s <= 0.1
    assert Deadline(10).within(0.1).remaining_s <= 0.1


def test_poll_returns_what_the_attempt_found() -> None:
    answers = iter([None, "", "found"])
    assert Deadline(5).poll(lambda: next(answers), "it", interval_s=0.001) == "found"


def test_poll_says_what_it_waited_for_and_how_long() -> None:
    with pytest.raises(DeadlineExceeded, match=r"waiting for Godot \(after 0\.\d s\)"):
        Deadline(0.05).poll(lambda: False, "Godot", interval_s=0.01)


def test_errors_say_what_where_and_what_next() -> None:
    error = LabError("it broke", where="a.yaml:3", hint="mend it", detail="x\ny", elapsed_s=1.26)
    assert str(error) == "a.yaml:3: it broke (after 1.3 s)\n  | x\n  | y\n  next: mend it"
    assert (error.exit_code, InputError("").exit_code) == (5, 2)


def test_a_failing_command_shows_itself_and_its_last_words() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(["sh", "-c", "echo why >&2; exit 3"], deadline=Deadline(5))
    assert "`sh -c 'echo why >&2; exit 3'` exited with status 3" in str(caught.value)
    assert "| why" in str(caught.value)


def test_a_killed_command_names_the_signal() -> None:
    with pytest.raises(CommandFailed, match="killed by SIGTERM"):
        run(["sh", "-c", "kill -TERM $$"], deadline=Deadline(5))


def test_a_command_past_its_deadline_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(DeadlineExceeded):
        run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], deadline=Deadline(0.5))
    pid = int(pid_file.read_text())
    Deadline(2).poll(lambda: not _runs(pid), "the child to end")


def test_a_command_dies_with_a_killed_lab(tmp_path: Path) -> None:
    code = (
        "from lab.process import run; from lab.deadline import Deadline;"
        f"run(['sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 60'], deadline=Deadline(60))"
    )
    lab = subprocess.Popen([sys.executable, "-c", code])
    Deadline(20).poll((tmp_path / "pid").exists, "the command to start")
    time.sleep(0.2)
    os.kill(lab.pid, signal.SIGKILL)
    lab.wait()
    pid = int((tmp_path / "pid").read_text())
    Deadline(2).poll(lambda: not _runs(pid), "the command to die")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_progress_is_plain_lines_away_from_a_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    with progress.step("build") as step:
        step.note("unpack")
    with pytest.raises(ValueError), progress.step("boot"):
        raise ValueError
    lines = [line.partition("] ")[2] for line in stream.getvalue().splitlines()]
    assert lines == ["build: unpack", "build: done", "boot: failed"]


def test_the_consoles_tail_is_text_without_control_sequences(tmp_path: Path) -> None:
    log = ConsoleLog(tmp_path / "console.log")
    assert log.tail() == "(the console is empty)"
    log.path.write_bytes(b"\x1b[2J\x1b[1;1Hone\r\n\r\nLAB-PHASE userspace\r\n\xfftwo")
    assert log.tail(2) == "LAB-PHASE userspace\n\ufffdtwo"
    assert log.milestones() == {"userspace"}
    assert log.failure() is None


def test_a_rotated_console_is_read_in_order(tmp_path: Path) -> None:
    for name, data in (("console.log.1", b"a"), ("console.log.0", b"b"), ("console.log", b"c")):
        (tmp_path / name).write_bytes(data)
    assert ConsoleLog(tmp_path / "console.log").read() == b"abc"


def test_a_guest_that_gives_up_says_why(tmp_path: Path) -> None:
    log = ConsoleLog(tmp_path / "console.log")
    log.path.write_bytes(b"[ 1.0] x\r\nLAB-FAILED initramfs: no disk\r\n")
    assert log.failure() == "initramfs: no disk"
