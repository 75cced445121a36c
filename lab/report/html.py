"""A report as one HTML page that needs nothing else: no script, no network, no other file.

It reads in light and dark, on a phone and on paper. Consoles and kernel logs are linked, not
copied: their links are relative to the run's directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lab.experiments.findings import Finding, Verdict, worst
from lab.report import plots, wording
from lab.report.distribution import distributions, tail_plot
from lab.report.model import Report
from lab.results.run_directory import Boot
from lab.results.trial import Trial
from lab.topology.experiment import Experiment, Gate
from lab.units import counted

# More of them would push the next experiment off the screen: then they are folded.
MOST_OPEN_PLOTS = 6


@dataclass(frozen=True)
class Plot:
    title: str
    svg: Markup
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """One experiment as the page shows it."""

    name: str
    what: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    gates: Mapping[str, Gate]
    intervals: tuple[Plot, ...]
    tails: tuple[Plot, ...]
    slopes: tuple[Plot, ...]
    series: tuple[Plot, ...]
    variants: tuple[str, ...]
    metrics: tuple[str, ...]
    trials: tuple[Trial, ...]


def html(report: Report) -> str:
    """The page. Reads the names of the logs in the run's directory, and nothing else of it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "measured": wording.measured,
        "interval": wording.interval,
        "detectable": wording.detectable,
        "figure": wording.figure,
        "counted": counted,
        "tally": wording.tally,
        "remarks": wording.remarks,
        "shared_notes": wording.shared_notes,
        "slug": lambda verdict: verdict.name.lower(),
    }
    return environment.get_template("report.html.j2").render(
        report=report,
        manifest=report.manifest,
        begun=report.manifest.created.replace("T", " ").replace("+00:00", " UTC"),
        boots_made=wording.boots_made(report),
        trials_made=wording.trials_made(report),
        fidelity=wording.fidelity(report),
        sections=[section(report, name, each) for name, each in report.experiments.items()],
        boots=report.boots,
        logs={boot.number: logs(report.directory, boot) for boot in report.boots},
        warnings={f"boot {boot.number}: {each}" for boot in report.boots for each in boot.warnings},
        warned=[boot for boot in report.boots if boot.warnings],
        legend_mark=plots.legend_mark,
        most_open=MOST_OPEN_PLOTS,
    )


def section(report: Report, name: str, experiment: Experiment) -> Section:
    """What the page shows of one experiment. Pure."""
    findings = report.of(name)
    trials = tuple(trial for trial in report.trials if trial.experiment == name)
    variants = tuple(experiment.variants)
    gates = experiment.gates
    # As one metric may have several gates.
    metrics = tuple(dict.fromkeys(finding.metric for finding in findings))
    return Section(
        name=name,
        what=experiment.what or "",
        verdict=worst([finding.verdict for finding in findings]),
        findings=findings,
        gates=gates,
        intervals=_plots(
            ("Change", plots.change_intervals(findings, gates)),
            ("Share of trials", plots.rate_intervals(findings, gates)),
        ),
        tails=_plots(
            *(
                (f"{sample}: share of samples above", tail_plot(sample, of, variants))
                for sample, of in distributions(trials).items()
            )
        ),
        slopes=_plots(
            *((f"{each.gate}", plots.slopes(each, variants), sides(each)) for each in findings)
        ),
        series=_plots(
            *(
                (
                    _with_unit(metric, trials),
                    plots.series(metric, trials, variants, _bounds(metric, gates)),
                )
                for metric in metrics
            )
        ),
        variants=variants,
        metrics=metrics,
        trials=trials,
    )


def logs(directory: Path, boot: Boot) -> list[tuple[str, str]]:
    """(what to call it, relative link) of each log that was kept of `boot`."""
    kept = sorted((directory / "boots" / str(boot.number)).glob("*.log"))
    return [
        (
            each.name.removesuffix(".log").replace(".", " "),
            f"boots/{boot.number}/{quote(each.name)}",
        )
        for each in kept
    ]


def sides(finding: Finding) -> str:
    """`baseline -> variant` of a comparison, else the variant alone."""
    names = [side.name for side in (finding.baseline, finding.variant) if side]
    return " \N{RIGHTWARDS ARROW} ".join(names)


def _plots(*told: tuple[Any, ...]) -> tuple[Plot, ...]:
    return tuple(Plot(title, svg, *caption) for title, svg, *caption in told if svg is not None)


def _with_unit(metric: str, trials: Sequence[Trial]) -> str:
    units = [found.unit for trial in trials if (found := trial.metric(metric))]
    return f"{metric}, {units[0]}" if units and units[0] else metric


def _bounds(metric: str, gates: Mapping[str, Gate]) -> list[float]:
    bounds = [gate.each or gate.value for gate in gates.values() if gate.metric == metric]
    return sorted({bound.number for bound in bounds if bound})
