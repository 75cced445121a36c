"""A run as it might be: every verdict, long tails, a lost guest, a busy host. Always the same."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.experiments.findings import Finding, Side, Verdict
from lab.guest.agent_client import Metric
from lab.report.model import Report
from lab.results.run_directory import Boot, Manifest
from lab.results.trial import Trial
from lab.topology.experiment import Experiment

BOOTS = 5
LOST = "guest server: no answer for 60 s\n  | <b>BUG</b>: soft lockup on CPU#1 \x1b[0m"

EXPERIMENTS = {
    "inside": {
        "what": "msquic 3283, sends and receive completions inline instead of queued",
        "workload": {"engine": "udp", "guest": "client"},
        "variants": {"main-40": {"preset": "main"}, "latest-40": {"preset": "latest"}},
        "trials": 2,
        "gates": {
            "rps-40": {
                "metric": "rps",
                "variant": "latest-40",
                "baseline": "main-40",
                "direction": "higher",
                "effect": "15%",
                "separated": True,
                "reference": "+49.9 %",
            },
            "p99-40": {
                "metric": "latency_p99",
                "variant": "latest-40",
                "baseline": "main-40",
                "direction": "lower",
                "effect": "10%",
                "reference": "-33.2 %",
            },
            "same-cpu": {
                "metric": "cpu_per_request",
                "variant": "latest-40",
                "baseline": "main-40",
                "within": "5%",
            },
            "max-40": {
                "metric": "latency_max",
                "variant": "latest-40",
                "baseline": "main-40",
                "report": True,
                "reference": "+17 %",
                "why": "worse in the published figures",
            },
            "sends-inline": {
                "metric": "sends_queued_per_request",
                "variant": "latest-40",
                "each": "== 0",
                "fails_on": "main-40",
            },
        },
    },
    "lost-kick": {
        "what": "vioscsi 1135, the kick is prepared within the ring's lock",
        "workload": {"engine": "vring", "guest": "scsi", "disk": "data0"},
        "variants": {"regressed": {"preset": "regressed"}, "fixed": {"preset": "fixed"}},
        "gates": {
            "stalls": {
                "metric": "lost_kicks",
                "variant": "regressed",
                "rate": ">= 0.5",
                "reference": "4 of 5 tries",
            },
            "fixed": {
                "metric": "lost_kicks",
                "variant": "fixed",
                "rate": "== 0",
                "fails_on": "regressed",
                "reference": "no resets",
            },
            "one-queue": {
                "metric": "lost_kicks",
                "variant": "fixed",
                "rate": "== 0",
                "control": True,
                "reference": "not seen with num_queues=1",
            },
            "healed": {
                "metric": "healed",
                "variant": "fixed",
                "each": ">= 1",
                "known_issue": {
                    "reason": "the ring is never emptied by a reset",
                    "link": "https://tracker.example/issues/684",
                    "expires": "2027-03-01",
                },
            },
        },
    },
    "across": {
        "what": "the same between two guests",
        "workload": {"engine": "udp", "guest": "client", "peer": "server"},
        "variants": {"main-40": {"preset": "main"}, "latest-40": {"preset": "latest"}},
        "gates": {
            "rps-40": {
                "metric": "rps",
                "variant": "latest-40",
                "baseline": "main-40",
                "direction": "higher",
                "effect": "15%",
                "reference": "+49.9 %",
            },
            "sends-inline": {
                "metric": "sends_queued_per_request",
                "variant": "latest-40",
                "each": "== 0",
            },
        },
    },
}


def example(directory: Path = Path("runs/example")) -> Report:
    """The report of the run, which is in `directory`; nothing is written."""
    chance = random.Random(3283)
    trials = []
    for boot in range(1, BOOTS + 1):
        host = chance.gauss(1, 0.02)
        for number in (1, 2):
            for variant in chance.sample(["main-40", "latest-40"], 2):
                trials.append(_udp(chance, "inside", variant, boot, number, host))
        for variant in ("regressed", "fixed"):
            trials.append(_vring(variant, boot))
    trials.append(_udp(chance, "across", "main-40", 6, 1, 1.0))
    trials.append(_trial("across", "latest-40", 6, 1, 61.5, error=LOST, fault="lost"))
    return Report(
        directory=directory,
        manifest=Manifest(
            id="example-20261207-090000",
            topology="example",
            source="topologies/example.yaml",
            profile="full",
            seed=42,
            created="2026-12-07T09:00:00+00:00",
            command="lab validate topologies/example.yaml --profile full --seed 42",
            accelerator="tcg",
            fingerprint={
                "accelerator": "tcg",
                "agent": "1f0c9a7be26b41d3a8e55d04c0ffee00d3adbeef6c0f8a7714e2b3c4d5e6f708",
                "cpu": "Example CPU @ 2.10GHz",
                "kernel of the host": "6.1.0-41-amd64",
                "qemu": "7.2.19",
            },
        ),
        experiments={name: Experiment.model_validate(told) for name, told in EXPERIMENTS.items()},
        findings=_findings(trials),
        trials=tuple(trials),
        boots=tuple(_boot(number) for number in range(1, BOOTS + 2)),
    )


def _udp(
    chance: random.Random, experiment: str, variant: str, boot: int, number: int, host: float
) -> Trial:
    is_main = variant == "main-40"
    middle_us = (1900 if is_main else 1250) / host
    samples = [round(chance.lognormvariate(0, 0.25) * middle_us) for _ in range(1500)]
    # One in a hundred waits for the scheduler, as in any guest.
    samples += [round(chance.paretovariate(1.3) * middle_us * 2) for _ in range(15)]
    ordered = sorted(samples)
    return _trial(
        experiment,
        variant,
        boot,
        number,
        6.2 + number / 10,
        metrics=(
            Metric("rps", "1/s", "higher", round(4e7 / middle_us)),
            Metric("latency_p99", "us", "lower", ordered[int(0.99 * len(ordered))]),
            Metric("latency_max", "us", "lower", ordered[-1]),
            Metric(
                "cpu_per_request",
                "us",
                "lower",
                round(chance.gauss(40 if is_main else 44.5, 0.5), 2),
            ),
        ),
        counters={"sends_queued_per_request": 2.0 if is_main else 0.0},
        samples={"latency_us": samples},
        fidelity="emulated",
    )


def _vring(variant: str, boot: int) -> Trial:
    has_lost = variant == "regressed" and boot != 3
    hold = 900 if variant == "regressed" else 1400
    return _trial(
        "lost-kick",
        variant,
        boot,
        1,
        20.4,
        metrics=(Metric("iops", "1/s", "higher", 5200 + 31 * boot),),
        counters={"lost_kicks": 1 + boot if has_lost else 0, "healed": 0},
        histograms={
            "lock_hold": {
                "unit": "ns",
                "buckets": [[hold * 2**step, 4000 // 3**step] for step in range(8)],
            }
        },
        fidelity="model",
    )


def _trial(
    experiment: str, variant: str, boot: int, number: int, elapsed_s: float, **told: Any
) -> Trial:
    started = f"2026-12-07T09:{boot * 5 + number:02d}:00+00:00"
    noise = {"steal": 0.001, "busy": 0.61}
    return Trial(experiment, variant, boot, boot, number, started, elapsed_s, noise=noise, **told)


def _boot(number: int) -> Boot:
    is_broken = number == BOOTS + 1
    is_busy = number in (3, 6)
    return Boot(
        number=number,
        planned_boot=min(number, BOOTS),
        group="",
        started=f"2026-12-07T09:{number * 5:02d}:00+00:00",
        elapsed_s=118.4 + number,
        noise={"busy": 0.31 if is_busy else 0.02, "steal": 0.0, "governor": "performance"},
        warnings=("the host was 31% busy before the boot: end other work",) if is_busy else (),
        error=LOST if is_broken else None,
    )


def _side(trials: list[Trial], experiment: str, variant: str, metric: str) -> Side:
    boots: dict[int, list[float]] = {}
    for trial in trials:
        value = trial.value(metric)
        if (trial.experiment, trial.variant) == (experiment, variant) and value is not None:
            boots.setdefault(trial.boot, []).append(value)
    return Side(variant, tuple(tuple(values) for values in boots.values()))


def _findings(trials: list[Trial]) -> tuple[Finding, ...]:
    def change(gate: str, metric: str, unit: str, half: float, **told: Any) -> Finding:
        before = _side(trials, "inside", "main-40", metric)
        after = _side(trials, "inside", "latest-40", metric)
        means = zip(before.boots, after.boots, strict=True)
        pairs = tuple(round(fmean(last) / fmean(first) - 1, 4) for first, last in means)
        middle = round(fmean(pairs), 4)
        return Finding(
            "inside",
            gate,
            metric,
            unit,
            "change",
            estimate=middle,
            low=round(middle - half, 4),
            high=round(middle + half, 4),
            baseline=before,
            variant=after,
            pairs=pairs,
            **told,
        )

    def kicks(gate: str, variant: str, metric: str, **told: Any) -> Finding:
        side = _side(trials, "lost-kick", variant, metric)
        return Finding("lost-kick", gate, metric, "", variant=side, **told)

    return (
        change(
            "rps-40",
            "rps",
            "1/s",
            0.041,
            claim="latest-40 at least 15 % higher than main-40, every trial",
            verdict=Verdict.PASS,
            detectable=0.038,
            reference="+49.9 %",
            notes=("boot 3 was made while the host was busy",),
        ),
        change(
            "p99-40",
            "latency_p99",
            "us",
            0.28,
            claim="latest-40 at least 10 % lower than main-40",
            verdict=Verdict.INCONCLUSIVE,
            why="the interval holds -10 %: it may be less",
            detectable=0.42,
            more_boots=7,
            reference="-33.2 %",
        ),
        change(
            "same-cpu",
            "cpu_per_request",
            "us",
            0.011,
            claim="latest-40 no further than 5 % from main-40",
            verdict=Verdict.FAIL,
            why="it is beyond 5 % in all of the interval",
            detectable=0.012,
        ),
        change(
            "max-40",
            "latency_max",
            "us",
            0.41,
            claim="reported",
            verdict=Verdict.REPORTED,
            reference="+17 %",
        ),
        Finding(
            "inside",
            "sends-inline",
            "sends_queued_per_request",
            "",
            "value",
            claim="every trial of latest-40 == 0; main-40 fails it",
            verdict=Verdict.PASS,
            estimate=0.0,
            variant=_side(trials, "inside", "latest-40", "sends_queued_per_request"),
        ),
        kicks(
            "stalls",
            "regressed",
            "lost_kicks",
            kind="rate",
            claim="regressed >= 50 % of trials",
            verdict=Verdict.PASS,
            estimate=0.8,
            low=0.284,
            high=0.995,
            detectable=0.6,
            reference="4 of 5 tries",
        ),
        kicks(
            "fixed",
            "fixed",
            "lost_kicks",
            kind="rate",
            claim="fixed == 0 % of trials; regressed fails it",
            verdict=Verdict.PASS,
            estimate=0.0,
            low=0.0,
            high=0.6,
            detectable=0.6,
            reference="no resets",
        ),
        kicks(
            "one-queue",
            "fixed",
            "lost_kicks",
            kind="rate",
            claim="fixed == 0 % of trials",
            verdict=Verdict.NOTHING_MEASURED,
            why="no trial of it is whole",
            is_control=True,
            reference="not seen with num_queues=1",
        ),
        kicks(
            "healed",
            "fixed",
            "healed",
            kind="value",
            claim="every trial of fixed >= 1",
            verdict=Verdict.KNOWN,
            why="5 of 5 trials are below 1",
            estimate=0.0,
        ),
        Finding(
            "across",
            "rps-40",
            "rps",
            "1/s",
            "change",
            claim="latest-40 at least 15 % higher than main-40",
            verdict=Verdict.BROKEN_LAB,
            why="guest server was lost in boot 6, before any pair of trials was whole",
            reference="+49.9 %",
            notes=("1 trial of latest-40 failed: no answer for 60 s",),
        ),
        Finding(
            "across",
            "sends-inline",
            "sends_queued_per_request",
            "",
            "value",
            claim="every trial of latest-40 == 0",
            verdict=Verdict.BROKEN_LAB,
            why="guest server was lost in boot 6",
        ),
    )
