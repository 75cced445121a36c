"""What `lab run --out FILE` keeps: every run of every preset, with its metrics.

Labels are workload, preset and accelerator: figures of two accelerators are not of one thing.
"""

from __future__ import annotations

from collections import Counter

from lab.results.importers import node
from lab.results.importers.node import Node
from lab.results.importers.source import Figure, Reading, Source, run_series
from lab.results.series import Series, merged


def recognises(text: str) -> bool:
    return '"accelerator"' in text and '"workload"' in text and '"runs"' in text


def read(source: Source) -> Reading:
    """Raises InputError for a run that was cut short: its figures are of less than the others."""
    document = node.parse(source, "lab run")
    accelerator = document["accelerator"].text()
    parts: list[Series] = []
    runs: Counter[tuple[str, ...]] = Counter()
    for run in document["runs"].elements():
        if run["partial"].value:
            raise source.fault(f"{run.place} was cut short: its figures are not whole")
        labels = (*_labels(run), accelerator)
        runs[labels] += 1
        figures = [_figure(each) for each in run["metrics"].elements()]
        parts += run_series(figures, run=str(runs[labels]), labels=labels)
    return Reading(merged(parts))


def _labels(run: Node) -> tuple[str, ...]:
    mechanism = run.get("mechanism")
    preset = mechanism["preset"].text() if mechanism and mechanism.value else ""
    return tuple(filter(None, (run["workload"].text(), preset)))


def _figure(metric: Node) -> Figure:
    return Figure(
        metric["name"].text(),
        metric["unit"].text(),
        metric["direction"].direction(),
        metric["value"].number(),
    )
