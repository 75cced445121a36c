"""pytest over a lab: `lab`, `guest`, `client`, `server` and `agent` as fixtures.

The lab is brought up once a session, belongs to the pytest process and goes with it, however
that ends. `--lab NAME` runs the tests against a lab that is up already, and leaves it up.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.guest.agent_client import AgentClient, Result
    from lab.running import RunningGuest, RunningLab

DEFAULT_TOPOLOGY = "topologies/default.yaml"
UP_S = 45 * 60.0
REPORT_S = 15.0
CONSOLE_LINES = 40

LabFactory = Callable[[Path], "RunningLab"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lab")
    group.addoption("--topology", default=None, help="the topology `lab` is brought up from")
    group.addoption("--lab", default=None, help="use this lab, which is up, and leave it up")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "guest_name" in metafunc.fixturenames:
        from lab.errors import LabError
        from lab.topology.load import load

        try:
            guests = list(load(_topology(metafunc.config)).topology.guests)
        except LabError as error:
            raise pytest.UsageError(str(error)) from None
        metafunc.parametrize("guest_name", guests, scope="session")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt("terminated")


@pytest.fixture(scope="session")
def lab_factory(pytestconfig: pytest.Config) -> Iterator[LabFactory]:
    """Brings topologies up, each once a session; all of them go at its end."""
    labs: dict[Path, RunningLab] = {}
    # Finalizers run on ctrl-C but not on SIGTERM (pytest #5243): make one the other.
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as stack:

        def bring_up(path: Path) -> RunningLab:
            if path not in labs:
                with _uncaptured(pytestconfig):
                    labs[path] = stack.enter_context(_bound_lab(path))
                labs[path].settle()
            return labs[path]

        yield bring_up


def _bound_lab(path: Path) -> AbstractContextManager[RunningLab]:
    from lab.bringup import bound_lab
    from lab.deadline import Deadline
    from lab.preparation import prepare
    from lab.progress import Progress
    from lab.topology.load import load

    loaded = load(path)
    progress, deadline = Progress(), Deadline(UP_S)
    prepared = prepare(loaded, wanted="auto", progress=progress, deadline=deadline)
    return bound_lab(prepared, progress=progress, deadline=deadline)


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config, lab_factory: LabFactory) -> Iterator[RunningLab]:
    """The lab of `--topology`, or the one named by `--lab`."""
    from lab.errors import LabError

    with ExitStack() as stack:
        try:
            if name := pytestconfig.getoption("--lab"):
                from lab.running import find

                running = stack.enter_context(find(name))
            else:
                running = lab_factory(_topology(pytestconfig))
        except LabError as error:
            # What failed is the lab or its description: frames of the plugin explain neither.
            pytest.fail(str(error), pytrace=False)
        yield running


@pytest.fixture
def guest(lab: RunningLab, guest_name: str) -> RunningGuest:
    """Each guest of the lab in turn."""
    return lab.guest(guest_name)


@pytest.fixture
def client(lab: RunningLab) -> RunningGuest:
    return lab.guest("client")


@pytest.fixture
def server(lab: RunningLab) -> RunningGuest:
    return lab.guest("server")


@pytest.fixture
def agent(client: RunningGuest) -> Iterator[AgentClient]:
    """The datapath agent of `client`, in a conversation of this test's own."""
    with client.agent() as agent:
        yield agent


@pytest.fixture
def run_workload(lab: RunningLab) -> Callable[..., Result]:
    """Run something in the guests, both its ends.

    `run_workload("udp", {"preset": "latest"}, deadline=lab.scaled(60))`
    """
    from lab.workload import run_workload

    return partial(run_workload, lab)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the guests of a failed test said: console and kernel log."""
    report = yield
    # No lab was touched where its module was never imported.
    if report.failed and "lab.running" in sys.modules:
        for guest in _guests_of(getattr(item, "funcargs", {})):
            report.sections.append((f"console of {guest.name}", guest.console.tail(CONSOLE_LINES)))
            report.sections.append((f"dmesg of {guest.name}", _dmesg(guest)))
    return report


def _guests_of(fixtures: Mapping[str, object]) -> Iterable[RunningGuest]:
    from lab.running import RunningGuest, RunningLab

    found: dict[int, RunningGuest] = {}
    for value in fixtures.values():
        if isinstance(value, RunningGuest):
            found[id(value)] = value
        elif isinstance(value, RunningLab):
            found |= {id(guest): guest for guest in value.guests.values()}
    return found.values()


def _dmesg(guest: RunningGuest) -> str:
    from lab.deadline import Deadline
    from lab.errors import LabError

    try:
        deadline = Deadline(REPORT_S)
        done = guest.session(deadline).run(f"dmesg | tail -n {CONSOLE_LINES}", deadline=deadline)
    except LabError as error:
        return f"(not to be had: {error.message})"
    return done.stdout


def _topology(config: pytest.Config) -> Path:
    return Path(config.getoption("--topology") or config.rootpath / DEFAULT_TOPOLOGY)


def _uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    """Let progress through: a bring-up, and more so a first image build, takes its time."""
    manager = config.pluginmanager.getplugin("capturemanager")
    uncaptured: AbstractContextManager[None] = manager.global_and_fixture_disabled()
    return uncaptured
