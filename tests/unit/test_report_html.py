"""The page of a report: well-formed, in need of nothing, and readable (by measured contrast)."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lab.report.html import html
from lab.report.model import Report
from lab.report.svg import COLOURS
from tests.unit.report_example import LOST, example

VOID = {"meta", "br", "link", "img", "hr"}
STYLE = Path(__file__).parents[2] / "lab" / "report" / "templates" / "style.css.j2"


class Page(HTMLParser):
    """Fails on tags that do not nest; keeps attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str, tag: str | None = None) -> list[str]:
        return [value for at, key, value in self.attributes if key == name and tag in (None, at)]


@pytest.fixture
def run(tmp_path: Path) -> Report:
    logs = tmp_path / "boots" / "6"
    logs.mkdir(parents=True)
    (logs / "server.console.log").write_text("")
    (logs / "server.dmesg.log").write_text("")
    return example(tmp_path)


@pytest.fixture
def page(run: Report) -> Page:
    return Page(html(run))


def test_it_fetches_nothing(page: Page) -> None:
    tags = {tag for tag, _, _ in page.attributes}
    assert not tags & {"script", "link", "img", "iframe", "object"}
    assert not page.values("src")
    assert not re.search(r"url\(|@import", STYLE.read_text())
    # Where a known issue is described is the only address there is, and only a link.
    away = [value for _, _, value in page.attributes if "://" in value]
    assert away == ["https://tracker.example/issues/684"]


def test_links_inside_lead_somewhere(page: Page, run: Report) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for link in page.values("href", "a"):
        if link.startswith("#"):
            assert link[1:] in ids
        elif "://" not in link:
            assert (run.directory / link).is_file()


def test_logs_that_were_kept_are_linked(page: Page) -> None:
    links = page.values("href", "a")
    assert {"boots/6/server.console.log", "boots/6/server.dmesg.log"} <= set(links)


def test_every_gate_and_trial_is_there(page: Page, run: Report) -> None:
    for finding in run.findings:
        assert finding.gate in page.text
        assert finding.claim in page.text
        assert finding.why in page.text
    assert page.text.count(LOST) == 2  # of the trial, and of its boot
    assert run.manifest.command in page.text
    assert all(value in page.text for value in run.manifest.fingerprint.values())


def test_a_note_that_the_head_has_is_not_said_again(run: Report) -> None:
    note = f"boot 3: {run.boots[2].warnings[0]}"
    noted = tuple(replace(each, notes=(note, "boot 6 broke")) for each in run.of("inside"))
    text = Page(html(replace(run, findings=noted))).text
    assert text.count(note) == 1
    assert text.count("5 gates: boot 6 broke") == 1


def test_what_guests_say_is_text(run: Report) -> None:
    assert "<b>" not in html(run)


def test_ids_of_experiments_and_boots_cannot_be_the_same(run: Report) -> None:
    """An experiment may be called as boots are."""
    named = {"boots": run.experiments["inside"], "boot-1": run.experiments["inside"]}
    ids = Page(html(replace(run, experiments=named))).values("id")
    assert len(ids) == len(set(ids))


def test_a_run_without_a_trial_has_a_page(run: Report) -> None:
    empty = replace(run, trials=(), boots=(), findings=())
    assert "nothing measured" in Page(html(empty)).text


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme: int) -> None:
    """4.5:1 for text and 3:1 for graphics: WCAG 2.2, 1.4.3 and 1.4.11."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", blocks[scheme]))
    for name in ("text", "quiet", "link", "fail"):
        assert contrast(colours[name], colours["box"]) >= 4.5, name
    for name in ("pass", "fail", "amber", "broken", "known", "plain"):
        assert contrast(colours[name], colours["page"]) >= 4.5, name
    for number in range(COLOURS):
        assert contrast(colours[f"c{number}"], colours["page"]) >= 3, number
