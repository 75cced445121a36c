"""The README's topology is one."""

from __future__ import annotations

import re
from pathlib import Path

from lab.images.lookup import look_up
from lab.topology.lint import check
from lab.topology.load import parse

ROOT = Path(__file__).parents[2]


def test_the_sample_topology_is_accepted() -> None:
    sample = re.search(r"```yaml\n(name: .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert sample
    loaded = parse(sample[1], ROOT / "sample.yaml")
    check(loaded, None)
    look_up(loaded)


def test_the_sample_experiment_is_accepted() -> None:
    sample = re.search(
        r"```yaml\n(experiments:.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert sample
    guests = (
        "name: t\n"
        "guests:\n"
        "  client: &guest {disks: {data0: {size: 1GiB}}, nics: {lan0: {segment: lan}}}\n"
        "  server: *guest\n"
        "segments: {lan: {}}\n"
    )
    loaded = parse(guests + sample[1], ROOT / "sample.yaml")
    check(loaded, None)
    assert set(loaded.topology.experiments) == {"transmit"}
