"""The page of a report in a real browser: it fits a desk and a phone, in light and dark."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from lab.report.html import html
from tests.unit.report_example import example

# Chromium itself opens no window of less than 500 px; its headless shell does.
BROWSER = shutil.which("chromium-headless-shell")
BROWSER_S = 60

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium-headless-shell: `make test` installs it"
)

# With everything unfolded; ahead of the page's policy, which lets no script run.
LOOK = """<head><script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const root = document.documentElement;
  root.dataset.seen = [innerWidth, root.scrollWidth, root.scrollHeight,
    getComputedStyle(document.body).backgroundColor].join(" ");
});
</script>"""


def browse(page: Path, *options: str) -> str:
    assert BROWSER
    command = [
        BROWSER,
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={page.parent / 'profile'}",
        *options,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BROWSER_S, check=True)
    return done.stdout


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_it_fits(tmp_path: Path, width: int, scheme: str) -> None:
    page = tmp_path / "report.html"
    page.write_text(html(example(tmp_path)).replace("<head>", LOOK, 1))
    options = (
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
    )
    seen = re.search(
        r'data-seen="(\d+) (\d+) (\d+) rgb\((\d+)', browse(page, *options, "--dump-dom")
    )
    assert seen
    inner, needed, height, red = map(int, seen.groups())
    assert inner == width
    assert needed <= width
    assert height > 900
    assert (red < 128) == (scheme == "dark")
    image = tmp_path / "page.png"
    browse(page, *options, f"--screenshot={image}")
    data = image.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (width, 900)
    # An empty page of this size is compressed to a few KiB.
    assert len(data) > 20_000
