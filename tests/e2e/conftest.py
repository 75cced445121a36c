"""What the e2e tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.support import ROOT, traces


@pytest.fixture(scope="session")
def topologies() -> Path:
    return ROOT / "topologies"


@pytest.fixture
def no_traces() -> Callable[[], None]:
    """Call it to assert that the host is as it was before the test."""
    before = traces()

    def check() -> None:
        after = traces()
        new = {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind]}
        assert not new, f"left behind: {new}"

    return check


@pytest.fixture
def reachable_path() -> Iterator[Path]:
    """A directory for the test that every user may enter, unlike pytest's own."""
    with TemporaryDirectory(dir="/var/tmp", prefix="lab-test-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def small_topology(tmp_path: Path) -> Path:
    """One small guest with one data disk and one NIC."""
    path = tmp_path / "small.yaml"
    path.write_text(
        "name: small\n"
        "guests:\n"
        "  one:\n"
        "    memory: 512MiB\n"
        "    disks:\n"
        "      data0: {size: 64MiB}\n"
        "    nics:\n"
        "      lan0: {segment: lan}\n"
        "segments:\n"
        "  lan: {}\n"
    )
    return path
