"""Experiments of topology files as tests: `pytest topologies/` has one test a gate.

The experiments of a file whose gates are selected are run once, as `lab validate` runs them, when
the first of its tests is: `topologies/hn-transmit.yaml::transmit::line-share`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lab.experiments.findings import Finding

RUN_S = 12 * 3600.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lab")
    group.addoption(
        "--profile", default="quick", choices=("quick", "full"), help="of experiments: how much"
    )
    group.addoption("--runs", default="runs", type=Path, help="where runs are kept")
    group.addoption("--seed", default=0, type=int, help="fixes the order of an experiment's trials")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Topologies that were asked for by name or directory; never by a bare `pytest`."""
    if file_path.suffix not in (".yaml", ".yml") or b"\nexperiments:" not in (
        file_path.read_bytes()
    ):
        return None
    return TopologyFile.from_parent(parent, path=file_path)


class TopologyFile(pytest.File):
    """A topology with experiments, and what came of its run."""

    _findings: dict[tuple[str, str], Finding] | None = None
    _failure: str | None = None

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        from lab.errors import LabError
        from lab.experiments.design import effective
        from lab.topology.lint import check
        from lab.topology.load import load

        try:
            loaded = load(self.path)
            check(loaded, None)
        except LabError as error:
            raise self.CollectError(str(error)) from None
        profile = self.config.getoption("--profile")
        for name, experiment in effective(loaded.topology.experiments, profile).items():
            yield ExperimentTests.from_parent(self, name=name, gates=tuple(experiment.gates))

    def finding(self, experiment: str, gate: str) -> Finding:
        """What became of the gate; the run is made for the first one that is asked for."""
        if self._failure is None and self._findings is None:
            try:
                self._findings = self._run()
            except Exception as error:
                # Every gate of the file has the same answer: it is not tried once a gate.
                self._failure = str(error)
        if self._failure is not None:
            pytest.fail(self._failure, pytrace=False)
        assert self._findings is not None
        return self._findings[experiment, gate]

    def _run(self) -> dict[tuple[str, str], Finding]:
        from lab.deadline import Deadline
        from lab.experiments.validation import Wanted, begin, collect
        from lab.progress import Progress
        from lab.report.load import load_report
        from lab.report.write import write
        from lab.topology.load import load

        selected = {
            item.experiment
            for item in self.session.items
            if isinstance(item, GateTest) and item.path == self.path
        }
        config = self.config
        wanted = Wanted(
            profile=config.getoption("--profile"),
            seed=config.getoption("--seed"),
            accelerator="auto",
            only=tuple(sorted(selected)),
        )
        progress, deadline = Progress(), Deadline(RUN_S)
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            run, environment = begin(
                load(self.path),
                wanted,
                config.getoption("--runs"),
                progress=progress,
                deadline=deadline,
            )
            error = collect(run, environment, progress=progress, deadline=deadline)
        report = load_report(run)
        write(report)
        if error:
            progress.say(f"lab: {error}")
        progress.say(f"{report.manifest.source}: {report.verdict} ({run.path}/report.html)")
        return {(each.experiment, each.gate): each for each in report.findings}


class ExperimentTests(pytest.Collector):
    """An experiment, whose tests are its gates."""

    def __init__(self, *, gates: tuple[str, ...], **rest: Any) -> None:
        super().__init__(**rest)
        self._gates = gates

    def collect(self) -> Iterator[pytest.Item]:
        for gate in self._gates:
            yield GateTest.from_parent(self, name=gate)


class GateTest(pytest.Item):
    """A gate: it fails where its claim does, and is skipped, saying so, where nothing was shown."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        assert self.parent
        self.experiment = self.parent.name
        # A run takes as long as it takes: pytest-timeout's limit is for tests of the lab.
        self.add_marker(pytest.mark.timeout(0))

    def runtest(self) -> None:
        assert self.parent and isinstance(self.parent.parent, TopologyFile)
        tell(self.parent.parent.finding(self.experiment, self.name))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.experiment}::{self.name}"


def tell(finding: Finding) -> None:
    """A finding as pytest's outcomes: fail, skip, xfail, or nothing for a pass and a report."""
    from lab.experiments.findings import Verdict

    said = f"{finding.verdict}: {finding.claim}" + (f"; {finding.why}" if finding.why else "")
    match finding.verdict:
        case Verdict.FAIL | Verdict.BROKEN_LAB | Verdict.NOTHING_MEASURED:
            pytest.fail(said, pytrace=False)
        case Verdict.INCONCLUSIVE:
            pytest.skip(said)
        case Verdict.KNOWN:
            pytest.xfail(said)
