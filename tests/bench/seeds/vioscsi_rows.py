"""The rows of vioscsi's table: pure, from trials alone."""

from __future__ import annotations

import statistics

from datapath_agent.mechanisms.vring import model

from tests.bench.seeds.common import Criterion, Outcome, Trials, spread

L3_STALL_MS = 1000.0


def judge(trials: Trials) -> list[Criterion]:
    return [
        _model(),
        _stalls(trials),
        _fixed(trials),
        _no_stall(trials, "3 one queue", "regressed, one queue", "num_queues=1: not seen"),
        _no_stall(trials, "4 flags", "regressed, flags", "a prediction of the design's model"),
        _always(trials),
        _sticky(trials),
        _rescue(trials),
        _throughput(trials),
        *_shape(trials),
        _tracing(trials),
        _ids(trials),
        _no_stall(trials, "control: pre684", "pre684", "0.1.204, 0.1.208 clean"),
        _no_stall(trials, "control: notify in lock", "notify in lock", "correct, longer hold"),
        _reported(trials, "pre-2018 overwrite", "pre2018", "stuck randomly under very high load"),
        _reported(trials, "#756: 8K and 64K", "regressed, 8K and 64K", "4 of 5 tries"),
        _data(trials),
        _driver(trials, "driver", "L3: the agent's engine on the guest's driver"),
        _driver(trials, "fio", "L3: fio on the guest's driver"),
        _harness(trials),
    ]


def _verdict(holds: bool) -> Outcome:
    return "holds" if holds else "does not hold"


def _nothing(name: str, must_hold: str, seed: str) -> Criterion:
    return Criterion(
        name, must_hold, seed, "nothing measured", "cannot be resolved", "no finished trial"
    )


def _stalled(trials: Trials, variant: str) -> str:
    """Trials that lost a kick, requests until then, and stalls that the machine explains."""
    values = trials.values(variant, "lost_kicks")
    requests = int(sum(trials.values(variant, "requests")))
    told = f"{_lost(trials, variant)}/{len(values)} trials stalled, {requests:,} requests"
    first = [
        each.counters["operations_to_first_stall"]
        for each in trials.of(variant)
        if each.counters["lost_kicks"]
    ]
    if first:
        told += (
            f"; {int(sum(values))} lost kicks, first after "
            f"{int(min(first)):,} .. {int(max(first)):,} requests of the queue"
        )
    pauses = int(sum(trials.values(variant, "stalls")) - sum(values))
    if pauses:
        told += f"; beside {pauses} pauses with nothing lost (disk busy, or device not run)"
    return told


def _lost(trials: Trials, variant: str) -> int:
    """Trials in which a kick was lost: a pause of an overloaded machine is no such stall."""
    return sum(bool(each.counters["lost_kicks"]) for each in trials.of(variant))


def _model() -> Criterion:
    def lost(shape: tuple[int, int], in_lock: bool, event_idx: bool) -> int:
        return len(model.lost_states(*shape, in_lock=in_lock, event_idx=event_idx))

    outside = [lost(shape, False, True) for shape in model.SHAPES]
    others = sum(
        lost(shape, in_lock, event_idx)
        for shape in model.SHAPES
        for in_lock, event_idx in ((True, True), (True, False), (False, False))
    )
    return Criterion(
        "L1 model",
        "in the lock 0 lost; outside with event_idx 2/1/4/0 for 2x2, 3x1, 2x3, 2x1; flags 0",
        "derived in the design",
        f"outside with event_idx {'/'.join(map(str, outside))}; all others {others}",
        _verdict(outside == [2, 1, 4, 0] and others == 0),
    )


def _stalls(trials: Trials) -> Criterion:
    name, must_hold = "1 regressed", "event_idx, 4 submitters a queue: >= 50 % of >= 10 trials"
    count = len(trials.of("regressed"))
    if count < 10:
        return _nothing(name, must_hold, "4 of 5 tries")
    return Criterion(
        name,
        must_hold,
        "4 of 5 tries",
        _stalled(trials, "regressed"),
        _verdict(_lost(trials, "regressed") >= count / 2),
    )


def _until_stall(trials: Trials) -> float:
    """Requests that the regressed trials completed before their first stall, or in all."""
    return sum(
        trial.counters.get("requests_before_first_stall", trial.counters["requests"])
        for trial in trials.of("regressed")
    )


def _fixed(trials: Trials) -> Criterion:
    name, must_hold = "2 fixed", "0 stalls in >= 10 times as many requests"
    same = sum(trials.values("fixed", "requests"))
    before = _until_stall(trials)
    if not same or not before:
        return _nothing(name, must_hold, "no resets after #1150")
    # The fix under every load, beside those under regressed's own.
    fixed = [each for each in trials.all if each.policy.get("kick") == "fixed" and not each.error]
    fixed = [each for each in fixed if each.policy["suppress"] == "event_idx"]
    done = sum(each.counters["requests"] for each in fixed)
    stalls = sum(bool(each.counters["lost_kicks"]) for each in fixed)
    enough = done >= 10 * before
    return Criterion(
        name,
        must_hold,
        "no resets after #1150",
        f"{_stalled(trials, 'fixed')}: {same / before:.1f} times the {int(before):,} of regressed; "
        f"with the fix's {len(fixed)} trials under all loads {done / before:.1f} times, {stalls} "
        "stalls",
        "does not hold" if stalls else "holds" if enough else "cannot be resolved",
        "" if stalls or enough else "too few requests in the time",
    )


def _no_stall(trials: Trials, name: str, variant: str, seed: str) -> Criterion:
    if not trials.of(variant):
        return _nothing(name, "0 stalls", seed)
    holds = not _lost(trials, variant)
    return Criterion(name, "0 stalls", seed, _stalled(trials, variant), _verdict(holds))


def _reported(trials: Trials, name: str, variant: str, seed: str) -> Criterion:
    if not trials.of(variant):
        return _nothing(name, "reported", seed)
    return Criterion(name, "reported", seed, _stalled(trials, variant), "reported")


def _always(trials: Trials) -> Criterion:
    name, must_hold = "5 always", "0 stalls, more kicks a request than fixed"
    always = trials.values("always", "kicks_per_request")
    fixed = trials.values("fixed, short", "kicks_per_request")
    if not always or not fixed:
        return _nothing(name, must_hold, "why suppression exists")
    stalls = _lost(trials, "always")
    return Criterion(
        name,
        must_hold,
        "why suppression exists",
        f"{stalls} stalls; {spread(fixed)} -> {spread(always)} kicks a request",
        _verdict(not stalls and min(always) > max(fixed)),
    )


def _sticky(trials: Trials) -> Criterion:
    name = "6 sticky"
    must_hold = "a stalled queue does not heal below 65,536 submissions unless force-kicked"
    stalled = [each for each in trials.of("regressed, reset") if each.counters.get("lost_kicks")]
    if not stalled:
        return Criterion(
            name, must_hold, "derived in the design", "no trial stalled", "cannot be resolved"
        )
    submitted = [each.counters["submitted_while_stalled"] for each in stalled]
    healed = sum(
        each.counters["healed_itself"] + each.counters["healed_by_submission"] for each in stalled
    )
    kicked = [
        each.counters["kick_to_progress_ms"]
        for each in stalled
        if "kick_to_progress_ms" in each.counters
    ]
    return Criterion(
        name,
        must_hold,
        "derived in the design",
        f"{len(stalled)} stalled trials, {spread(submitted)} further submissions each until the "
        f"ring was full: {int(healed)} healed; a forced kick helped after {spread(kicked)} ms",
        _verdict(not healed and len(kicked) > 0),
        "a ring of 256 holds no 65,536; that figure is the model's",
    )


def _rescue(trials: Trials) -> Criterion:
    name, seed = "6b full ring notifies", "a full ring could rescue the queue (inferred)"
    variant = "regressed, reset, full ring notifies"
    stalled = [each for each in trials.of(variant) if each.counters.get("lost_kicks")]
    if not stalled:
        return _nothing(name, "reported", seed)
    healed = sum(each.counters["healed_by_submission"] for each in stalled)
    stale = sum(each.counters["stale"] for each in stalled)
    wrong = sum(each.counters["wrong"] for each in stalled)
    resets = sum(each.counters["resets"] for each in stalled)
    return Criterion(
        name,
        "reported",
        seed,
        f"{len(stalled)} stalled trials: {int(healed)} queues rescued by the kick of a full ring; "
        f"{int(resets)} requests reset, {int(stale)} stale completions, {int(wrong)} of another "
        "request",
        "reported",
    )


def _throughput(trials: Trials) -> Criterion:
    """Stall-free trials only: those that stalled measure the stall."""
    name, must_hold, seed = "7 speed", "IOPS of fixed >= regressed, stall-free", "no baseline"
    told = []
    behind = []
    for variant in _points(trials):
        before = [
            trial.metrics["iops"]
            for trial in trials.of(variant.replace("fixed", "regressed"))
            if not trial.metrics["stalled"]
        ]
        after = trials.values(variant, "iops")
        if not before or not after:
            continue
        ratio = statistics.fmean(after) / statistics.fmean(before)
        told.append(f"{variant.removesuffix(' fixed')} {ratio:.2f}")
        if ratio < 1:
            behind.append(ratio)
    if not told:
        return _nothing(name, must_hold, seed)
    few = "one trial a side: a ratio near 1 is within the spread" if behind else ""
    return Criterion(
        name,
        must_hold,
        seed,
        f"fixed / regressed: {', '.join(told)}",
        "holds" if not behind else "cannot be resolved",
        few,
    )


def _points(trials: Trials) -> list[str]:
    """The seed's points, as measured with the fix."""
    names = {trial.variant for trial in trials.all}
    return sorted(name for name in names if " x " in name and name.endswith(" fixed"))


def _shape(trials: Trials) -> list[Criterion]:
    """What the seed says of its own speed, as ratios; absolute figures are not comparable."""

    def mean(variant: str, name: str) -> float | None:
        values = trials.values(variant, name)
        return statistics.fmean(values) if values else None

    def row(name: str, seed: str, over: float | None, under: float | None) -> Criterion:
        if not over or not under:
            return _nothing(name, "reported", seed)
        return Criterion(
            name, "reported", seed, f"{over:,.4g} / {under:,.4g} = {over / under:.0%}", "reported"
        )

    read_64k = mean("64 KiB x 32 x 4 randread fixed", "throughput")
    write_64k = mean("64 KiB x 32 x 4 randwrite fixed", "throughput")
    return [
        row(
            "7a sequential read / raw device, MiB/s",
            "96 %",
            mean("1 MiB x 8 x 1 read fixed", "throughput"),
            mean("raw 1 MiB read", "read_throughput"),
        ),
        row(
            "7b 4 KiB random read / raw device, IOPS",
            "27 %",
            mean("4 KiB x 32 x 8 randread fixed", "iops"),
            mean("raw 4 KiB randread", "read_iops"),
        ),
        row("7c write / read at 64 KiB, MiB/s", "93 %", write_64k, read_64k),
    ]


def _tracing(trials: Trials) -> Criterion:
    name, seed = "8 tracing", "about 8 %"
    off, on = trials.values("fixed, short", "iops"), trials.values("fixed, traced", "iops")
    if not off or not on:
        return _nothing(name, "reported", seed)
    by = statistics.fmean(on) / statistics.fmean(off) - 1
    return Criterion(
        name, "reported", seed, f"{spread(off)} -> {spread(on)} IOPS: {by:+.1%}", "reported"
    )


def _ids(trials: Trials) -> Criterion:
    name, must_hold, seed = "9 ids", "unlocked: duplicates > 0; locked: 0", "#1453"
    unlocked = trials.values("ids unlocked", "duplicate_ids")
    locked = trials.values("fixed, short", "duplicate_ids") + trials.values(
        "fixed", "duplicate_ids"
    )
    if not unlocked or not locked:
        return _nothing(name, must_hold, seed)
    wrong = sum(trials.values("ids unlocked", "wrong"))
    bad = sum(trials.values("ids unlocked", "data_errors"))
    return Criterion(
        name,
        must_hold,
        seed,
        f"unlocked {spread(unlocked)} duplicates, {int(wrong)} completions of another request, "
        f"{int(bad)} blocks of wrong data; locked {int(sum(locked))}",
        _verdict(min(unlocked) > 0 and not any(locked)),
    )


def _data(trials: Trials) -> Criterion:
    """Every trial but those that are meant to damage: reset and unlocked ids."""
    harmless = [
        trial
        for trial in trials.all
        if "data_errors" in trial.metrics
        and "reset" not in trial.variant
        and trial.variant != "ids unlocked"
    ]
    errors = sum(trial.metrics["data_errors"] for trial in harmless)
    verified = sum(trial.counters.get("verified", 0) for trial in harmless)
    return Criterion(
        "data",
        "no block misplaced or lost where no policy explains it",
        "not in the seed",
        f"{int(errors)} wrong blocks in {len(harmless)} trials, {int(verified)} read back whole",
        _verdict(not errors),
    )


def _driver(trials: Trials, prefix: str, what: str) -> Criterion:
    """A stall of the real driver would be a request of a second or more."""
    longest = {
        trial.variant.removeprefix(prefix + " "): trial.metrics["latency_max"] / 1000
        for trial in trials.all
        if trial.variant.startswith(prefix + " ") and trial.error is None
    }
    must_hold = "0 stalls: no request of a second or more"
    if not longest:
        return _nothing(what, must_hold, "in-lock order: not seen")
    shown = ", ".join(f"{disk} {each:.0f}" for disk, each in longest.items())
    return Criterion(
        what,
        must_hold,
        "in-lock order: not seen",
        f"longest request, ms: {shown}",
        _verdict(max(longest.values()) < L3_STALL_MS),
    )


def _harness(trials: Trials) -> Criterion:
    costs = [trial.harness["cost_us"] for trial in trials.all if trial.harness]
    return Criterion(
        "harness",
        "reported",
        "-",
        f"{spread(costs)} us a request of the ring without a disk, elapsed",
        "reported",
    )
