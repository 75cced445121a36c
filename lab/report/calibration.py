"""A calibration on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from lab.experiments.calibration import ALPHA, BOOTS, SPLITS, Calibration


def print_calibration(calibrations: Sequence[Calibration]) -> None:
    """The noise of every metric, false alarms, and the smallest effects that boots would show."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    number_of_boots = "/".join(map(str, BOOTS))
    table = Table(title="noise of identical variants (A/A)", box=SIMPLE)
    table.add_column("experiment")
    table.add_column("metric")
    for heading in (
        "boots x trials",
        "within a boot",
        "between boots",
        "false alarms",
        f"shown by {number_of_boots} shared boots",
        f"by {number_of_boots} boots a side",
    ):
        table.add_column(heading, justify="right")
    for each in calibrations:
        table.add_row(
            each.experiment, each.metric, f"{each.boots} x {each.trials}", _share(each.within),
            _share(each.between), _share(each.false_alarms), _effects(each.paired),
            _effects(each.alternating),
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    if not calibrations:
        print("no metric was positive in every trial", file=sys.stderr)
        return
    print(
        f"false alarms: of {SPLITS} random splits of the boots' own trials, at the gates' level of"
        f" {ALPHA:.0%}\nshown: the smallest change found with power 0.8, shared boots for variants"
        " that are swapped within a boot, boots a side for variants that need their own"
    )


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _effects(effects: Mapping[int, float]) -> str:
    return " / ".join(f"{effect:.1%}" for effect in effects.values()) or "-"
