"""The gates of the shipped topologies, on trials made of the published figures.

What was published must pass them, and a figure that breaks the pattern must fail its own gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lab.experiments.findings import Finding, Verdict
from lab.experiments.gates import judge
from lab.guest.agent_client import Metric
from lab.results.run_directory import Boot
from lab.results.trial import Trial
from lab.topology.load import load

BOOTS = 8
TODAY = date(2026, 12, 7)

# QP/s of the published table, and of the one with creation in the loop.
WINVERBS = {
    "ss": 3363, "sw": 3012, "as": 3289, "aw": 7168, "ss-2": 4902, "sw-2": 4400, "as-2": 4764,
    "aw-2": 7050, "ss-loop-1": 1801, "aw-loop-1": 2634, "ss-loop-2": 2705, "aw-loop-2": 3562,
    "ss-loop-4": 3869, "aw-loop-4": 3933, "sh": 3363, "ah": 7168,
}  # fmt: skip


def judged(
    rates: Mapping[str, float], *, spread_us: float = 0.1, scatter: float = 0.002, failures: int = 0
) -> dict[str, Finding]:
    """Boots of which each is faster or slower as a whole, and trials that scatter beside that."""
    experiment = load(Path("topologies/winverbs-qp-modify.yaml")).topology.experiments["rxe"]
    trials = []
    for boot in range(1, BOOTS + 1):
        for place, (variant, rate) in enumerate(rates.items()):
            weather = 1 + 0.01 * (boot % 3) + scatter * ((boot * 7 + place) % 5)
            overlapped = 0.99 if variant[:2] in ("aw", "ah") else 0.0
            metrics = (
                Metric("qps", "QPs/s", "higher", rate * weather),
                Metric("failures", "", "lower", failures),
            )
            harness: dict[str, Any] = {"cost_us": 1.0, "spread_us": spread_us, "runs": 3}
            trials.append(
                Trial(
                    "rxe", variant, boot, boot, 1, "", 1.0, metrics=metrics, harness=harness,
                    counters={"overlapped_share": overlapped},
                )
            )  # fmt: skip
    boots = [Boot(number, number, "", "") for number in range(1, BOOTS + 1)]
    findings = judge({"rxe": experiment}, trials, boots, today=TODAY)
    return {finding.gate: finding for finding in findings}


def test_what_was_published_passes() -> None:
    assert {each.gate: each.verdict for each in judged(WINVERBS).values() if each.verdict is not (
        Verdict.PASS
    )} == {}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "gate"),
    [
        ({"sw": 3500}, "1-workitem-costs"),
        ({"as": 2500}, "2-async-alone"),
        ({"aw": 3400}, "3-async-workitem"),
        ({"as-2": 3600}, "4-scaling-as"),
        ({"aw-2": 14000}, "4-aw-below-ss"),
        ({"aw-loop-4": 6000}, "5-loop-2-to-4"),
        ({"ah": 3363}, "6-hinted-async-aw"),
    ],
)
def test_a_figure_that_breaks_the_pattern_fails_its_gate(
    changed: dict[str, float], gate: str
) -> None:
    assert judged({**WINVERBS, **changed})[gate].verdict is Verdict.FAIL


def test_a_wrong_final_state_fails() -> None:
    assert judged(WINVERBS, failures=1)["states-aw"].verdict is Verdict.FAIL


def test_noise_makes_a_gate_inconclusive_not_true() -> None:
    found = judged(WINVERBS, scatter=0.3)
    assert found["2-async-alone"].verdict is Verdict.INCONCLUSIVE
