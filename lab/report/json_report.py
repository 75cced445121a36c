"""A report for programs. Keys are only ever added; `format` counts changes of their meaning."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from typing import Any

from lab.experiments.findings import Finding, Verdict, exit_code, worst
from lab.report import wording
from lab.report.model import Report

FORMAT = 1


def document(report: Report) -> dict[str, Any]:
    """The report as JSON values: what is not a finite number is null.

    `findings` has every gate with its statistics, `experiments` what they add up to. Samples are
    not repeated: they are in the run's trials.jsonl.
    """
    counts = Counter(finding.verdict for finding in report.findings)
    return {
        "format": FORMAT,
        "verdict": str(report.verdict),
        "exit_code": int(exit_code(report.verdict)),
        "run": _plain(asdict(report.manifest)),
        "summary": {
            "verdicts": {str(verdict): counts[verdict] for verdict in Verdict},
            "boots": len(report.boots),
            "broken_boots": sum(1 for boot in report.boots if boot.error),
            "trials": len(report.trials),
            "failed_trials": sum(1 for trial in report.trials if not trial.is_whole),
            "fidelity": sorted({trial.fidelity for trial in report.trials if trial.fidelity}),
            "warnings": [
                {"boot": boot.number, "warning": warning}
                for boot in report.boots
                for warning in boot.warnings
            ],
        },
        "experiments": {
            name: {
                "what": experiment.what,
                "verdict": str(worst([finding.verdict for finding in report.of(name)])),
                "gates": [finding.gate for finding in report.of(name)],
            }
            for name, experiment in report.experiments.items()
        },
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    told = {**asdict(finding), "verdict": str(finding.verdict)}
    told["published_change"] = wording.published_share(finding.reference)
    plain: dict[str, Any] = _plain(told)
    return plain


def _plain(value: Any) -> Any:
    """JSON has neither tuples nor infinities."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
