"""What becomes of a mechanism's run when something ends it: nothing stays, what it had is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from datapath_agent import mechanisms

from lab.deadline import Deadline
from lab.guest.agent_client import AgentError, Result
from lab.running import RunningGuest, RunningLab
from lab.workload import run_workload

# Long enough that every run is ended by its test.
RUNTIME_S = 120.0
LOADS: dict[str, dict[str, Any]] = {
    "ifstart": {"runtime_s": RUNTIME_S},
    "udp": {"runtime_s": RUNTIME_S, "idle_s": 0.0},
    "verbs": {"device": "rxe0", "create": "in_loop", "qps": 1_000_000},
    "vring": {"disk": "data0", "runtime_s": RUNTIME_S, "preset": "fixed"},
}
# The slowest is `verbs`, which has its addresses resolved first.
UNDER_WAY_S = 60.0
# For a run that has begun to measure to have its first samples, under TCG.
SOMETHING_MEASURED_S = 1.0
# Everything a run started has to be gone in this time after its end.
GONE_WITHIN_S = 2
AGENTS = "[d]atapath-agent serve"
# Watched from within the guest: an ssh command takes a good part of the time itself.
WAIT_UNTIL_GONE = (
    f"end=$(( $(date +%s) + {GONE_WITHIN_S} )); "
    f"while pgrep -f '{AGENTS}' > /run/left; do "
    "[ $(date +%s) -gt $end ] && { ps -fp $(cat /run/left); exit 1; }; sleep 0.1; done; "
    "ls /dev/shm"
)


def test_every_mechanism_has_its_faults_tested() -> None:
    assert set(LOADS) == set(mechanisms.names())


@contextmanager
def under_way(lab: RunningLab, name: str) -> Iterator[Future[Result]]:
    """A run of `name` between client and server that has begun to measure."""
    begun = threading.Event()

    def measure() -> Result:
        return run_workload(
            lab,
            name,
            {**LOADS[name], "null_s": 0.05},
            guest="client",
            peer="server",
            deadline=Deadline(2 * RUNTIME_S),
            on_progress=lambda doing: "measure" in doing and begun.set(),
        )

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(measure)
        try:
            if not begun.wait(UNDER_WAY_S):
                raise AssertionError(f"{name} did not begin: {running.exception(0)}")
            time.sleep(SOMETHING_MEASURED_S)
            yield running
        finally:
            # Whatever failed, the thread must not wait for the run's own end.
            lab.guest("client").session().run(f"pkill -KILL -f '{AGENTS}'", deadline=Deadline(30))


def kill_agent(guest: RunningGuest, signal: str) -> None:
    """Signal the agent itself, the oldest of its processes."""
    done = guest.session().run(f"pkill -{signal} -o -f '{AGENTS}'", deadline=Deadline(30))
    assert done.returncode == 0


def assert_gone(guest: RunningGuest) -> None:
    done = guest.session().run(WAIT_UNTIL_GONE, deadline=Deadline(60))
    assert done.returncode == 0, done.stdout
    assert done.stdout.strip() == "", "shared memory is left"


@pytest.mark.parametrize("name", LOADS)
def test_a_terminated_agent_hands_over_what_it_has_and_leaves_nothing(
    lab: RunningLab, client: RunningGuest, server: RunningGuest, name: str
) -> None:
    with under_way(lab, name) as running:
        kill_agent(client, "TERM")
        assert_gone(client)
        result = running.result(30)
    assert result.partial
    assert result.mechanism
    assert result.mechanism.policy
    assert any(values for values in result.samples.values()), "no samples were kept"
    assert_gone(server)


@pytest.mark.parametrize("name", LOADS)
def test_a_killed_agent_leaves_nothing(lab: RunningLab, client: RunningGuest, name: str) -> None:
    with under_way(lab, name) as running:
        kill_agent(client, "KILL")
        assert_gone(client)
        with pytest.raises(Exception, match="the agent ended"):
            running.result(30)


@pytest.mark.parametrize("name", ["ifstart", "udp"])
def test_a_peer_that_goes_is_an_error_with_what_was_measured_until_then(
    lab: RunningLab, client: RunningGuest, server: RunningGuest, name: str
) -> None:
    with under_way(lab, name) as running:
        kill_agent(server, "KILL")
        with pytest.raises(AgentError) as caught:
            running.result(60)
    error = caught.value
    assert error.kind in ("peer-gone", "no-answer")
    assert error.partial and error.partial.partial
    assert any(values for values in error.partial.samples.values())
    assert_gone(client)


def test_a_lost_channel_ends_the_run(lab: RunningLab, client: RunningGuest) -> None:
    from lab.guest.workloads import GivenWorkload

    agent = client.agent()
    conversation = agent.__enter__()
    begun = threading.Event()
    workload = GivenWorkload("vring", LOADS["vring"])
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            conversation.run, workload, deadline=Deadline(300), on_progress=lambda _: begun.set()
        )
        assert begun.wait(UNDER_WAY_S)
        agent.__exit__(None, None, None)
        assert_gone(client)
        with pytest.raises(Exception, match=r"channel|ended"):
            running.result(30)


@pytest.fixture
def stepped_clock(client: RunningGuest) -> Iterator[Callable[[], None]]:
    """Sets the guest's clock an hour ahead when called; it is put back afterwards."""

    def step(seconds: int) -> None:
        command = f"date -s @$(( $(date +%s) + {seconds} ))"
        assert client.session().run(command, deadline=Deadline(30)).returncode == 0

    stepped = []

    def ahead() -> None:
        stepped.append(True)
        step(3600)

    yield ahead
    if stepped:
        step(-3600)


def test_a_stepped_clock_is_told_and_changes_no_figure(
    lab: RunningLab, stepped_clock: Callable[[], None]
) -> None:
    stepped = []

    def step_once(_: str) -> None:
        if not stepped:
            stepped.append(True)
            stepped_clock()

    result = run_workload(
        lab,
        "udp",
        {"runtime_s": 4.0, "idle_s": 0.0, "null_s": 0.05},
        guest="client",
        peer="client",
        deadline=lab.scaled(60),
        on_progress=step_once,
    )
    assert result.clock_step_s == pytest.approx(3600, abs=30)
    # An hour counted in would make the rate a thousandth of this.
    assert result["rps"].value * 4.0 == pytest.approx(len(result.samples["latency_us"]), rel=0.2)
    assert max(result.samples["latency_us"]) < 10e6
