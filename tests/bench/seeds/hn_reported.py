"""The rows of D5074's table that are reported, not gated."""

from __future__ import annotations

import os

from tests.bench.seeds.common import Criterion, Trials, change, spread


def sched_all(trials: Trials) -> Criterion:
    return Criterion(
        "7: sched_all beside them",
        "no preset winner",
        "author's later default",
        "; ".join(
            f"{name}: {spread(trials.values(name, 'throughput'))} Gbit/s, "
            f"min/max {spread(trials.values(name, 'lowest_to_highest'), 2)}, "
            f"p99 {spread(trials.values(name, 'small_start_p99'))} us"
            for name in ("before", "after", "later")
        ),
        "reported",
    )


def spin(trials: Trials) -> Criterion:
    parts = []
    for preset in ("before", "after"):
        for name, unit in (("throughput", "Gbit/s"), ("small_start_p99", "us")):
            sleep, spin = trials.values(preset, name), trials.values(f"{preset}, spin", name)
            by = f" ({change(sleep, spin):+.0%})" if sleep and spin else ""
            parts.append(f"{preset} {unit} {spread(sleep)} -> {spread(spin)}{by}")
    return Criterion(
        "8: spin where sleep was",
        "degrades more once vCPUs outnumber cores; not gated",
        "royger's hypothesis",
        "; ".join(parts),
        "reported",
        "vCPUs outnumber cores in every trial: there is nothing to compare with",
    )


def threads(trials: Trials) -> Criterion:
    """What the GIL between senders would have done to rows 1 and 4."""
    return beside(trials, "threads of one process", "before, threads", "after, threads")


def beside(trials: Trials, what: str, before: str, after: str) -> Criterion:
    parts = []
    for name, unit in (("throughput", "Gbit/s"), ("small_start_p99", "us")):
        was, now = trials.values(before, name), trials.values(after, name)
        by = f" ({change(was, now):+.0%})" if was and now else ""
        parts.append(f"{unit} {spread(was)} -> {spread(now)}{by}")
    return Criterion(what, "not gated", "none", "; ".join(parts), "reported")


def where(trials: Trials) -> Criterion:
    cost = [float(trial.harness["cost_us"]) for trial in trials.all if trial.harness]
    wide = [float(trial.harness["spread_us"]) for trial in trials.all if trial.harness]
    parameters = next((trial.parameters for trial in trials.all if trial.parameters), {})
    return Criterion(
        "where",
        "not gated",
        "10 GbE, 4..9 Gbit/s",
        f"line {parameters.get('line_rate_mbps')} Mbit/s; vCPUs of the sending guest "
        f"{spread(trials.values('before', 'vcpus'), 2)}, cores of the host {os.cpu_count()}; "
        f"harness us a frame {spread(cost, 3)}, spread of three null runs {spread(wide, 3)}; "
        "involuntary switches a frame "
        f"{spread(trials.values('before', 'involuntary_switches_per_frame'), 2)} -> "
        f"{spread(trials.values('after', 'involuntary_switches_per_frame'), 2)}",
        "reported",
    )
