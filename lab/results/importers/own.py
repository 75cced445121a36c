"""What `lab import --json` prints, read back: {"format": "lab-import", "series": [...]}."""

from __future__ import annotations

from typing import Any

from lab.results.importers import node
from lab.results.importers.node import Node
from lab.results.importers.source import Histogram, Reading, Source
from lab.results.series import Series

FORMAT = "lab-import"


def recognises(text: str) -> bool:
    return f'"{FORMAT}"' in text


def as_document(reading: Reading) -> dict[str, Any]:
    """`reading` for JSON; `read` is the inverse."""
    return {
        "format": FORMAT,
        "series": [
            {
                "metric": each.metric,
                "unit": each.unit,
                "better": each.better,
                "labels": each.labels,
                "runs": [
                    {"id": name, "values": boot}
                    for name, boot in zip(each.ids, each.boots, strict=True)
                ],
            }
            for each in reading.series
        ],
        "histograms": reading.histograms,
    }


def read(source: Source) -> Reading:
    document = node.parse(source, "lab import")
    histograms = document.get("histograms")
    return Reading(
        tuple(_series(each) for each in document["series"].elements()),
        {name: _histogram(each) for name, each in histograms.items()} if histograms else {},
    )


def _series(each: Node) -> Series:
    runs = list(each["runs"].elements())
    boots = tuple(tuple(v.number() for v in run["values"].elements()) for run in runs)
    if not (boots and all(boots)):
        raise each.source.fault(f"{each.place}: expected runs, and values in every run")
    return Series(
        metric=each["metric"].text(),
        unit=each["unit"].text(),
        better=each["better"].direction(),
        boots=boots,
        ids=tuple(run["id"].text() for run in runs),
        labels=tuple(label.text() for label in each["labels"].elements()),
    )


def _histogram(pairs: Node) -> Histogram:
    return tuple(_pair(pair) for pair in pairs.elements())


def _pair(pair: Node) -> tuple[float, int]:
    numbers = [each.number() for each in pair.elements()]
    if len(numbers) != 2:
        raise pair.source.fault(f"{pair.place}: expected a value and a count")
    return numbers[0], int(numbers[1])
