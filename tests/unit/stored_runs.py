"""Reports of made-up runs, for tests of the store and of history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.experiments.findings import Finding, Verdict
from lab.guest.agent_client import Metric
from lab.report.model import Report
from lab.results.run_directory import Manifest
from lab.results.trial import Trial
from lab.topology.experiment import Experiment

FINGERPRINT = {"kernel": "6.12", "qemu": "7.2"}


def experiment(**workload: Any) -> Experiment:
    return Experiment.model_validate(
        {
            "workload": {"engine": "vring", **workload},
            "variants": {"fixed": {"preset": "fixed"}},
            "gates": {"kicks": {"metric": "kicks", "variant": "fixed", "report": True}},
        }
    )


def trial(boot: int, value: float, *, variant: str = "fixed", number: int = 1) -> Trial:
    return Trial(
        "sendsrb", variant, boot, boot, number, "2026-12-01T00:00:00+00:00", 1.0,
        metrics=(Metric("iops", "1/s", "higher", value),),
        counters={"kicks": 5.0, "ungated": 1.0},
    )  # fmt: skip


def report(
    name: str,
    boots: Sequence[float],
    *,
    fingerprint: Mapping[str, str] = FINGERPRINT,
    verdict: Verdict = Verdict.PASS,
    of: Experiment | None = None,
) -> Report:
    """A run called `name` whose boots have one trial each; names are in the order of time."""
    manifest = Manifest(
        id=name, topology="vioscsi", source="vioscsi.yaml", profile="full", seed=1,
        created=f"2026-12-01 {name}", command="lab validate", accelerator="tcg",
        fingerprint=fingerprint,
    )  # fmt: skip
    finding = Finding("sendsrb", "kicks", "kicks", "", "value", "none", verdict, estimate=5.0)
    return Report(
        directory=Path(name),
        manifest=manifest,
        experiments={"sendsrb": of or experiment()},
        findings=(finding,),
        trials=tuple(trial(number, value) for number, value in enumerate(boots, 1)),
        boots=(),
    )
