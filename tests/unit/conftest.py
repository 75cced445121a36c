"""What the unit tests of several modules share."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest


@pytest.fixture
def no_child_left() -> Iterator[None]:
    """The test leaves no child process behind (earlier tests' own helpers are not its doing)."""
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before
