"""A run with its judgement: what every form of report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.experiments.findings import Finding, Verdict, worst
from lab.results.run_directory import Boot, Manifest
from lab.results.trial import Trial
from lab.topology.experiment import Experiment


@dataclass(frozen=True)
class Report:
    """`directory` is the run's: links to consoles and kernel logs are relative to it."""

    directory: Path
    manifest: Manifest
    experiments: Mapping[str, Experiment]
    findings: tuple[Finding, ...]
    trials: tuple[Trial, ...]
    boots: tuple[Boot, ...]

    @property
    def verdict(self) -> Verdict:
        return worst([finding.verdict for finding in self.findings])

    def of(self, experiment: str) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.experiment == experiment)
