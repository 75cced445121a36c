"""Teams of processes: they start together, report once, and never outlive their block."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil
import pytest
from datapath_agent.protocol import Fault
from datapath_agent.team import STOP_GRACE_S, Member, Team

pytestmark = pytest.mark.usefixtures("no_child_left")


class StubRun:
    """What a team needs of a run."""

    stop_reason: str | None = None

    def progress(self, doing: str) -> None: ...


def test_members_start_together_and_report() -> None:
    def body(delay_s: float) -> Any:
        def live(member: Member) -> dict[str, float]:
            time.sleep(delay_s)
            member.ready()
            return {"started_s": time.monotonic()}

        return live

    with Team(StubRun()) as team:
        for number, delay_s in enumerate((0.0, 0.3)):
            team.fork(f"member {number}", body(delay_s))
        start_s = team.start()
        reports = team.collect()
    started_s = [report["started_s"] for report in reports.values()]
    assert list(reports) == ["member 0", "member 1"]
    # The first was ready 0.3 s before the second, and yet waited for it.
    assert max(started_s) - min(started_s) < 0.2
    assert min(started_s) >= start_s - 0.2


def until_stopped(member: Member) -> dict[str, int]:
    member.ready()
    turns = 0
    while not member.should_stop:
        time.sleep(0.01)
        turns += 1
    return {"turns": turns}


def test_a_stopped_run_gets_what_its_members_have() -> None:
    run = StubRun()
    with Team(run) as team:
        team.fork("one", until_stopped)
        team.start()
        run.stop_reason = "requested"
        assert team.collect()["one"]["turns"] >= 0


def test_a_member_that_does_not_stop_is_killed() -> None:
    run = StubRun()

    def deaf(member: Member) -> dict[str, int]:
        member.ready()
        time.sleep(60)
        return {}

    with Team(run) as team:
        team.fork("deaf", deaf)
        team.fork("one", until_stopped)
        team.start()
        run.stop_reason = "requested"
        start_s = time.monotonic()
        assert list(team.collect()) == ["one"]
    assert time.monotonic() - start_s < STOP_GRACE_S + 1


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (lambda: os.kill(os.getpid(), 9), "killed before it could report"),
        (lambda: 1 // 0, "bad: ZeroDivisionError"),
        (lambda: (_ for _ in ()).throw(Fault("peer-gone", "no more")), "no more"),
    ],
)
def test_one_that_fails_ends_the_others_and_they_still_report(failure: Any, message: str) -> None:
    def bad(member: Member) -> dict[str, int]:
        member.ready()
        failure()
        return {}

    with Team(StubRun()) as team:
        team.fork("good", until_stopped)
        team.fork("bad", bad)
        team.start()
        with pytest.raises(Fault, match=message) as caught:
            team.collect()
    assert list(caught.value.reports) == ["good"]


def test_one_that_fails_before_it_is_ready_does_not_hold_the_start() -> None:
    def bad(member: Member) -> dict[str, int]:
        raise Fault("missing-device", "none here")

    with Team(StubRun()) as team:
        team.fork("good", until_stopped)
        team.fork("bad", bad)
        team.start()
        with pytest.raises(Fault, match="none here") as caught:
            team.collect()
    assert caught.value.kind == "missing-device"


def test_nothing_is_left_when_the_block_fails() -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(RuntimeError), Team(StubRun()) as team:
        team.fork("one", until_stopped)
        raise RuntimeError
    assert psutil.Process().num_fds() == before
