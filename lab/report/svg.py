"""What every plot is drawn with: scales with their ticks, and SVG elements as safe markup.

Colours are classes, so that the page's style sheet decides them, for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

# About a phone's width, so that text in a plot is as large there as it was drawn.
WIDTH = 360
COLOURS = 8
MARKERS = ("circle", "square", "diamond", "triangle")
# What a label needs beside or above the next one.
TICK_ACROSS_PX = 40
TICK_UP_PX = 26
TICK_SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Scale:
    """Values `low` .. `high` along pixels `start` .. `end`; values beyond are drawn at the end."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        share = self._share(min(max(value, self.low), self.high))
        return round(self.start + share * (self.end - self.start), 1)

    def _share(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values, far enough from one another for their labels."""
        room = TICK_ACROSS_PX if self.end > self.start else TICK_UP_PX
        most = max(2, int(abs(self.end - self.start) / room))
        found = _log_ticks(self.low, self.high) if self.is_log else []
        if len(found) < 2:
            return _linear_ticks(self.low, self.high, most)
        return found[:: math.ceil(len(found) / most)]


def scale_of(values: Iterable[float], start: float, end: float, *, wide: float = 20) -> Scale:
    """A scale for `values`, logarithmic where the largest is `wide` times the smallest or more."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite), max(finite)
    if low > 0 and high / low >= wide:
        return Scale(low / 1.1, high * 1.1, start, end, is_log=True)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1
    # Zero is a place of its own: no margin leads below it.
    return Scale(max(0, low - margin) if low >= 0 else low - margin, high + margin, start, end)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / most
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = (float(f"{number * step:.12g}") for number in range(first, last + 1))
    return [tick for tick in ticks if low <= tick <= high]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if high / low > 100 else (1, 2, 5)
    every = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in every if low <= tick <= high]


def tick_text(value: float) -> str:
    """`20k`, `1.5M`, `0.25`: short, for axes."""
    for size, suffix in TICK_SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.3g}"


def element(name: str, /, *inside: str, **attributes: str | float) -> Markup:
    """`class_` stands for class, `_` in names for `-`; all values are escaped."""
    told = " ".join(
        f'{key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name} {told}>{''.join(escape(each) for each in inside)}</{name}>")


def drawing(
    elements: Sequence[Markup], *, height: float, label: str, width: float = WIDTH
) -> Markup:
    """The whole image; `label` is what a screen reader says of it."""
    return element("svg", *elements, viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def text(x: float, y: float, words: str, *, class_: str = "", anchor: str = "start") -> Markup:
    return element("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    steps = " ".join(f"{x:g},{y:g}" for x, y in points)
    return element("polyline", points=steps, class_=class_)


def area(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    corners = " ".join(f"{x:g},{y:g}" for x, y in points)
    return element("polygon", points=corners, class_=class_)


def marker(x: float, y: float, index: int, *, size: float = 3.5, class_: str = "") -> Markup:
    """The mark of series `index`: its shape tells it where its colour does not."""
    name = f"m {class_ or colour(index)}"
    match MARKERS[index % len(MARKERS)]:
        case "circle":
            return element("circle", cx=x, cy=y, r=size, class_=name)
        case "square":
            side = size * 1.8
            return element(
                "rect",
                x=round(x - side / 2, 1),
                y=round(y - side / 2, 1),
                width=side,
                height=side,
                class_=name,
            )
        case "diamond":
            reach = size * 1.3
            corners = [(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)]
        case _:
            reach = size * 1.25
            corners = [(x, y - reach), (x + reach, y + size), (x - reach, y + size)]
    return area(corners, name)


def colour(index: int) -> str:
    """The class of series `index`: beyond the last colour, the first ones again, dashed."""
    dashed = " dashed" if index >= COLOURS else ""
    return f"c{index % COLOURS}{dashed}"
