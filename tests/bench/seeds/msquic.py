"""Pass criteria of msquic #3283: UDP sends and receive completions inline, or queued.

Each group of variants is interleaved by itself, inside one guest (loopback, an end a vCPU) and
across two. The published figures are of QUIC on Windows; only their relative change is compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.progress import Progress
from lab.running import RunningLab
from tests.bench.seeds.common import (
    Criterion,
    Outcome,
    Trial,
    Trials,
    Variant,
    change,
    interleave,
    mechanism,
    separated,
    shift,
    spread,
)

TOPOLOGY = "msquic-datapath.yaml"
VCPUS = 2
RUNS = 5
# The published runs took 10 s and 30 s after 2 s of idling. 75 trials of these lengths are what
# fits into a quarter of an hour with nothing else on the machine.
LENGTH = {"runtime_s": 4.0, "idle_s": 1.0, "null_s": 0.1}

# Where the two ends are: the guest that runs it, and its peer.
PLACES = {"inside": ("client", "client"), "across": ("client", "server")}
LOADS: dict[int, dict[str, Any]] = {
    40: {"connections": 40, "in_flight": 20},
    1: {"connections": 1, "in_flight": 1},
}
PRESETS = ("main", "latest")
# The other two corners of send x recv, and the presets' third axis by itself.
CORNERS = {
    "queued sends": {"send": "queue_self", "recv": "inline", "route": "route_queue"},
    "posted receives": {"send": "inline", "recv": "queue", "route": "route_queue"},
    "both, route_queue": {"send": "queue_self", "recv": "queue", "route": "route_queue"},
}
BULK = ("inline", "queue_datapath")
# What the control asks for: datapath and protocol of either end busy at the same time.
BULK_VCPUS = 4
# What a fall has to be where the criterion names no size: any.
ANY_FALL = -1e-9
# No comparison counts whose effect is not this many times the spread of the harness.
HARNESS_SPREADS = 3
LITTLE = 0.10

PUBLISHED = {
    (40, "rps"): "+49.9 %", (40, "latency_p50"): "-35.1 %", (40, "latency_p90"): "-40.0 %",
    (40, "latency_p99"): "-33.2 %", (40, "latency_min"): "-24.5 %",
    (40, "latency_p99_99"): "+34 % (worse)", (40, "latency_max"): "+17 % (worse)",
    (1, "latency_min"): "-23.0 %", (1, "latency_p90"): "-21.4 %", (1, "rps"): "+11.3 %",
    (1, "latency_p50"): "-6.3 %", (1, "latency_p99_99"): "noise",
    (1, "latency_max"): "one outlier of 222 ms",
}  # fmt: skip
GATED = (
    (40, "rps", 0.15), (40, "latency_p50", -0.10), (40, "latency_p90", -0.10),
    (40, "latency_p99", -0.10), (40, "latency_min", ANY_FALL), (1, "latency_min", ANY_FALL),
    (1, "latency_p90", ANY_FALL),
)  # fmt: skip
REPORTED = (
    (1, "rps"), (1, "latency_p50"), (40, "latency_p99_99"), (40, "latency_max"),
    (1, "latency_p99_99"), (1, "latency_max"),
)  # fmt: skip


def variant_name(place: str, connections: int, what: str) -> str:
    return f"{place} {connections} {what}"


def collect(lab: RunningLab, *, runs: int | None, out: Path, progress: Progress) -> None:
    for group in _groups():
        interleave(lab, group, runs or RUNS, out=out, progress=progress)


def _groups() -> list[list[Variant]]:
    groups = []
    for place, (guest, peer) in PLACES.items():
        for connections, load in LOADS.items():
            policies: dict[str, dict[str, Any]] = {name: {"preset": name} for name in PRESETS}
            if (place, connections) == ("inside", 40):
                policies |= CORNERS
            groups.append(
                [
                    mechanism(
                        variant_name(place, connections, name),
                        "udp",
                        {**policy, **load, **LENGTH},
                        guest=guest,
                        peer=peer,
                    )
                    for name, policy in policies.items()
                ]
            )
        groups.append(
            [
                mechanism(
                    f"{place} bulk {send}",
                    "udp",
                    {"profile": "maxtput", "send": send, "mode": "bulk", **LENGTH},
                    guest=guest,
                    peer=peer,
                )
                for send in BULK
            ]
        )
    return groups


def judge(trials: Trials) -> list[Criterion]:
    criteria = []
    for place in PLACES:
        criteria += [_gated(trials, place, *each) for each in GATED]
        criteria += [_reported(trials, place, *each) for each in REPORTED]
        criteria += [_paired(trials, place, connections) for connections in LOADS]
        criteria += [_queues(trials, place), _little(trials, place), _bulk(trials, place)]
    return [*criteria, _attribution(trials), _losses(trials)]


def _both(trials: Trials, place: str, connections: int, name: str) -> list[list[float]]:
    """The values of `main` and of `latest`."""
    return [trials.values(variant_name(place, connections, preset), name) for preset in PRESETS]


def _gated(trials: Trials, place: str, connections: int, name: str, floor: float) -> Criterion:
    before, after = _both(trials, place, connections, name)
    outcome, measured, why = shift(before, after, floor=floor)
    if outcome == "cannot be resolved" and before and after:
        costs = _both(trials, place, connections, "cpu_us_per_request")
        ranges = [f"{min(each):.0f}..{max(each):.0f}" for each in costs if each]
        why += (
            f": one preset's runs vary by {_variation(before):.0%} and {_variation(after):.0%}, "
            f"their CPU a request (by the guest's clock) {' and '.join(ranges)} us"
        )
    if outcome == "holds":
        effect_us = abs(
            _us_a_request(name, before, connections) - _us_a_request(name, after, connections)
        )
        harness_us = _harness_spread_us(trials, place, connections)
        if effect_us < HARNESS_SPREADS * harness_us:
            outcome = "cannot be resolved"
            why = (
                f"{effect_us:.0f} us a request, less than {HARNESS_SPREADS} x the harness' "
                f"spread of {harness_us:.0f} us"
            )
    size = "" if floor == ANY_FALL else f", mean {floor:+.0%} or more"
    direction = "every latest above every main" if floor > 0 else "every latest below every main"
    return Criterion(
        _title(place, connections, name),
        direction + size,
        PUBLISHED[connections, name],
        measured,
        outcome,
        why,
    )


def _reported(trials: Trials, place: str, connections: int, name: str) -> Criterion:
    before, after = _both(trials, place, connections, name)
    _, measured, why = shift(before, after, floor=ANY_FALL if name != "rps" else 1e-9)
    published = PUBLISHED[connections, name]
    title = _title(place, connections, name)
    return Criterion(title, "not gated", published, measured, "reported", why)


def _paired(trials: Trials, place: str, connections: int) -> Criterion:
    """Each round's two presets by themselves: a machine that was slow for a while cancels out."""
    before, after = (
        {trial.number: trial.metrics["rps"] for trial in trials.of(name)}
        for name in (variant_name(place, connections, preset) for preset in PRESETS)
    )
    ratios = [after[number] / before[number] for number in before if number in after]
    faster = sum(ratio > 1 for ratio in ratios)
    return Criterion(
        f"{_title(place, connections, 'rps')}, by round",
        "not gated",
        "-",
        f"latest / main: median {statistics.median(ratios):.2f} ({min(ratios):.2f} .. "
        f"{max(ratios):.2f}), above 1 in {faster} of {len(ratios)} rounds"
        if ratios
        else "nothing measured",
        "reported",
    )


def _title(place: str, connections: int, name: str) -> str:
    return f"{place}, {connections} conn., {name.removeprefix('latency_')}"


def _us_a_request(name: str, values: Sequence[float], connections: int) -> float:
    """What the harness' cost can be compared with: by Little's law, latency over in flight."""
    mean = statistics.fmean(values)
    return 1e6 / mean if name == "rps" else mean / int(LOADS[connections]["in_flight"])


def _variation(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else 0.0


def _harness_spread_us(trials: Trials, place: str, connections: int) -> float:
    """The median over the trials, each of which measured its own."""
    return statistics.median(
        float(trial.harness["spread_us"])
        for preset in PRESETS
        for trial in trials.of(variant_name(place, connections, preset))
    )


def _queues(trials: Trials, place: str) -> Criterion:
    """The change must be visible in its own counters before its timing counts."""
    outcome: Outcome = "holds"
    shown = []
    for connections in LOADS:
        for end, who in (("", "client"), ("server_", "server")):
            sends = _both(trials, place, connections, f"{end}sends_queued_per_request")
            posts = _both(trials, place, connections, f"{end}recv_posted_per_request")
            if not all((*sends, *posts)):
                outcome = "cannot be resolved"
                continue
            # A server that has one request in flight never finds a second: nothing to post.
            posts_fall = separated(posts[1], posts[0]) or not any((*posts[0], *posts[1]))
            if min(sends[0]) < 1 or max(sends[1]) > 0 or not posts_fall:
                outcome = "does not hold"
            means = [statistics.fmean(values) for values in (*sends, *posts)]
            shown.append(
                f"{connections} conn. {who}: sends {means[0]:.2f} -> {means[1]:.2f}, "
                f"receives {means[2]:.2f} -> {means[3]:.2f}"
            )
    return Criterion(
        f"{place}, hops a request",
        "queued sends from >= 1 to 0, posted receives fall",
        "-",
        "; ".join(shown) or "nothing measured",
        outcome,
    )


def _little(trials: Trials, place: str) -> Criterion:
    """In flight over RPS is the mean latency, or the client did something else meanwhile."""
    off = [
        (abs(_little_us(trial) / trial.metrics["latency_mean"] - 1), trial)
        for trial in trials.all
        if trial.error is None and trial.variant.startswith(place) and "rps" in trial.metrics
    ]
    if not off:
        return Criterion(
            f"{place}, Little's law", "", "holds", "nothing measured", "cannot be resolved"
        )
    worst, trial = max(off, key=lambda each: each[0])
    return Criterion(
        f"{place}, Little's law",
        f"in flight / RPS within {LITTLE:.0%} of the mean latency, every trial",
        "holds",
        f"worst of {len(off)} trials off by {worst:.1%} ({trial.variant})",
        "holds" if worst <= LITTLE else "does not hold",
    )


def _little_us(trial: Trial) -> float:
    return float(trial.parameters["in_flight"]) / trial.metrics["rps"] * 1e6


def _bulk(trials: Trials, place: str) -> Criterion:
    """The control: where datapath and protocol are two processes, queueing was kept."""
    inline, queued = (trials.values(f"{place} bulk {send}", "delivered_mbps") for send in BULK)
    outcome, measured, why = shift(inline, queued, floor=1e-9)
    if outcome != "cannot be resolved" or (inline and queued):
        # Not worse is what has to hold: overlapping ranges do.
        outcome = "holds"
        if separated(queued, inline):
            outcome = "does not hold" if VCPUS >= BULK_VCPUS else "cannot be resolved"
            costs = [
                statistics.fmean(trials.values(f"{place} bulk {send}", "cpu_us_per_request"))
                for send in BULK
            ]
            why = (
                f"worse by {-change(inline, queued):.0%} with {VCPUS} vCPUs a guest: the sender's "
                f"CPU a datagram goes from {costs[0]:.0f} to {costs[1]:.0f} us, and no idle CPU "
                "takes the difference"
            )
    return Criterion(
        f"{place}, maxtput bulk, Mb/s",
        f"queue_datapath not worse than inline (claimed for >= {BULK_VCPUS} vCPUs)",
        "none given",
        measured,
        outcome,
        why,
    )


def _attribution(trials: Trials) -> Criterion:
    """Which of the two halves, or the route, the gain comes from."""
    base = trials.values(variant_name("inside", 40, "main"), "rps")
    shown = []
    for what in (*CORNERS, "latest"):
        values = trials.values(variant_name("inside", 40, what), "rps")
        if base and values:
            shown.append(f"{what}: {spread(values)}, {change(base, values):+.0%} v main")
    return Criterion(
        "inside, 40 conn., send x recv, RPS",
        "not gated: the published change gives only the sum",
        "-",
        "; ".join(shown) or "nothing measured",
        "reported",
        "queued sends: only sends queued; posted receives: only receives posted",
    )


def _losses(trials: Trials) -> Criterion:
    """Loss would make a closed loop stand still, and its latencies censored."""
    lost = sum(trial.metrics.get("lost", 0) for trial in trials.all)
    dropped = sum(
        trial.counters.get(f"{end}{name}", 0)
        for trial in trials.all
        for end in ("", "server_")
        for name in ("sends_dropped", "ring_full")
    )
    return Criterion(
        "all, lost requests and datagrams",
        "not gated",
        "-",
        f"{lost:.0f} lost, {dropped:.0f} dropped by a sender, in {len(trials.all)} trials",
        "reported",
    )
