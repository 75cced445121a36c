"""How findings are put into words and figures: the same in every form of report."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable

from lab.experiments.findings import Finding, Verdict
from lab.experiments.outcome import MOST_SHARE
from lab.report.model import Report
from lab.units import counted

NOTHING = "-"
# Words may follow, another percentage may not: a range is not one change.
_CHANGE = re.compile(r"([+\u2212-])\s*([0-9]+(?:\.[0-9]+)?)\s*%(?:\s[^%]*)?")


def figure(value: float) -> str:
    """Four significant digits, thousands grouped: `1,234`, `0.09498`."""
    if not math.isfinite(value):
        return "unbounded"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(share: float, *, sign: bool = False) -> str:
    """`0.1234` -> `12.3 %`, or with `sign` `+12.3 %`."""
    if not math.isfinite(share):
        return "unbounded"
    if share > MOST_SHARE:
        return f"> {percent(MOST_SHARE, sign=sign)}"
    digits = 0 if abs(share) >= 10 or abs(share) in (0, 1) else 1
    return f"{share * 100:{'+' if sign and share else ''},.{digits}f} %"


def measured(finding: Finding) -> str:
    """The change, the rate as k of n, or the value; `-` where there is none."""
    if finding.estimate is None:
        return NOTHING
    match finding.kind:
        case "change":
            return percent(finding.estimate, sign=True)
        case "rate":
            values = finding.variant.values if finding.variant else ()
            shown = sum(1 for each in values if each)
            return f"{shown}/{len(values)}" if values else percent(finding.estimate)
        case "value":
            unit = "" if finding.unit in ("", "ratio") else f" {finding.unit}"
            return f"{figure(finding.estimate)}{unit}"


def interval(finding: Finding) -> str:
    """`+8.1 % .. +16.4 %`; empty where no interval was computed."""
    if finding.low is None or finding.high is None:
        return ""
    ends = (finding.low, finding.high)
    if finding.kind == "value":
        return " .. ".join(figure(end) for end in ends)
    return " .. ".join(percent(end, sign=finding.kind == "change") for end in ends)


def detectable(finding: Finding) -> str:
    return NOTHING if finding.detectable is None else percent(finding.detectable)


def published_share(reference: str) -> float | None:
    """`"+49.9 %"` -> 0.499; None for anything that does not begin as one change."""
    match = _CHANGE.fullmatch(reference.strip())
    if match is None:
        return None
    share = float(match[2]) / 100
    return share if match[1] == "+" else -share


def remarks(finding: Finding, shared: Collection[str] = ()) -> list[str]:
    """What a reader must know beside the figures, a line each; not what is said as `shared`."""
    lines = [finding.why] if finding.why else []
    if finding.more_boots:
        lines.append(f"{counted(finding.more_boots, 'more boot')} would settle it")
    return lines + [note for note in finding.notes if note not in shared]


def shared_notes(findings: Iterable[Finding]) -> dict[str, int]:
    """Notes that several gates have, and how many: they are said once."""
    counts = Counter(note for finding in findings for note in dict.fromkeys(finding.notes))
    return {note: count for note, count in counts.items() if count > 1}


def trials_made(report: Report) -> str:
    """`36 trials, 2 of them failed`."""
    failed = sum(1 for trial in report.trials if not trial.is_whole)
    made = counted(len(report.trials), "trial")
    return f"{made}, {failed} of them failed" if failed else made


def boots_made(report: Report) -> str:
    broken = sum(1 for boot in report.boots if boot.error)
    made = counted(len(report.boots), "boot")
    return f"{made}, {broken} of them broken" if broken else made


def fidelity(report: Report) -> str:
    """Every fidelity that the trials have, such as `emulated, native`."""
    return ", ".join(sorted({trial.fidelity for trial in report.trials if trial.fidelity})) or (
        "unknown"
    )


def tally(findings: Iterable[Finding]) -> str:
    """`3 pass, 1 fail`, in the order of the verdicts' severity."""
    counts = Counter(each.verdict for each in findings)
    return ", ".join(f"{counts[each]} {each}" for each in SEVERITY if counts[each]) or "no gates"


SEVERITY = (
    Verdict.FAIL,
    Verdict.BROKEN_LAB,
    Verdict.NOTHING_MEASURED,
    Verdict.INCONCLUSIVE,
    Verdict.KNOWN,
    Verdict.PASS,
    Verdict.REPORTED,
)
