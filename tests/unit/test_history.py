"""`lab history`: which runs are compared, the band, drift alarms, and the forms it is shown in."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lab.cli import run_command_line
from lab.experiments.findings import Verdict
from lab.report.history import sparkline
from lab.report.model import Report
from lab.results.history import Trend, Wanted, band, trends
from lab.results.store import opened
from tests.unit.stored_runs import FINGERPRINT, experiment, report

Command = Callable[..., int]


def trend_of(path: Path, reports: Sequence[Report]) -> Trend:
    with opened(path / "results.sqlite") as store:
        for each in reports:
            store.record(each)
        (found,) = trends(store.series(), Wanted(metric="iops"))
    return found


@pytest.fixture
def lab_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("LAB_STATE_DIR", str(tmp_path))

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["lab", *words])
        return run_command_line()

    return run


def record(path: Path, values: Sequence[float]) -> None:
    with opened(path / "results.sqlite") as store:
        for number, value in enumerate(values):
            store.record(report(f"run{number:03}", [value]))


def test_the_band_is_the_prediction_interval_of_one_more_value() -> None:
    # mean 10, s 1, n 5: t(0.995, 4) = 4.6041, times sqrt(1.2)
    values = [10 + each / 1.118033988749895 * 1.118033988749895 for each in (-1, -1, 0, 1, 1)]
    low, high = band(values) or (0, 0)
    assert (low, high) == pytest.approx((10 - 4.6041 * 1.0954, 10 + 4.6041 * 1.0954), abs=1e-3)


def test_a_band_needs_earlier_runs() -> None:
    assert band([1.0, 2.0]) is None


def test_the_last_value_is_placed_against_the_earlier_ones(tmp_path: Path) -> None:
    earlier = [100.0, 101.0, 99.0, 100.5, 99.5]
    for last, place in ((100.2, "within"), (120.0, "above"), (80.0, "below")):
        runs = [report(f"{number}", [value]) for number, value in enumerate([*earlier, last])]
        trend = trend_of(tmp_path / place, runs)
        assert trend.place == place
        # The band is of the earlier ones alone.
        assert trend.high is not None and trend.high < 105


def test_the_band_is_of_the_present_level(tmp_path: Path) -> None:
    values = [100.0 + night % 3 for night in range(15)] + [50.0 + night % 3 for night in range(10)]
    trend = trend_of(tmp_path, [report(f"{n:02}", [value]) for n, value in enumerate(values)])
    assert len(trend.changes) == 1
    assert trend.high is not None and trend.high < 60


def test_many_runs_left_out_for_one_reason_are_one_line(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "results.sqlite") as store:
        for night in range(9):
            store.record(report(f"run{night}", [1.0], fingerprint={"kernel": "6.1"}))
        store.record(report("run9", [1.0], fingerprint={"kernel": "6.12"}))
    assert lab_command("history") == 0
    shown = capsys.readouterr().out
    assert "left out: run0 .. run8 (9 runs): kernel: 6.1, then 6.12" in shown
    assert shown.count("left out") == 1


def test_runs_of_another_fingerprint_or_definition_are_left_out_by_name(tmp_path: Path) -> None:
    trend = trend_of(
        tmp_path,
        [
            report("a", [1.0], fingerprint={"kernel": "6.1", "qemu": "7.2"}),
            report("b", [100.0]),
            report("c", [5.0], of=experiment(submitters=8)),
            # What nights are compared for.
            report("d", [101.0], fingerprint={**FINGERPRINT, "agent": "newer"}),
        ],
    )
    assert trend.values == (100.0, 101.0)
    assert {each.run: each.why for each in trend.left_out} == {
        "a": "kernel: 6.1, then 6.12",
        "c": "the variant was defined otherwise",
    }


def test_a_sparkline_goes_from_the_lowest_to_the_highest() -> None:
    assert sparkline([1, 2, 8]) == "▁▂█"
    assert len(set(sparkline([3, 3, 3]))) == 1
    assert len(sparkline(range(100))) == 20


def test_a_drift_is_an_alarm_and_no_failure(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = random.Random(1)
    levels = [100.0] * 15 + [80.0] * 10
    record(tmp_path, [level * noise.gauss(1, 0.01) for level in levels])
    assert lab_command("history", "iops") == 0
    shown = capsys.readouterr().out
    assert re.search(r"drift: vioscsi sendsrb fixed iops: .*for the worse\) since run015", shown)
    assert "never fail a command" in shown


def test_an_alarm_names_what_was_edited_that_night(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "results.sqlite") as store:
        for night in range(30):
            agent = {**FINGERPRINT, "agent": "old" if night < 15 else "new"}
            value = (100.0 if night < 15 else 150.0) + night % 3
            store.record(report(f"run{night:03}", [value], fingerprint=agent))
    assert lab_command("history", "iops") == 0
    shown = capsys.readouterr().out
    assert "for the better) since run015, with another agent" in shown


def test_gates_are_counted_by_verdict(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "results.sqlite") as store:
        for name, verdict in (("a", Verdict.PASS), ("b", Verdict.PASS), ("c", Verdict.FAIL)):
            store.record(report(name, [1.0], verdict=verdict))
    assert lab_command("history") == 0
    assert "2 pass, 1 fail" in capsys.readouterr().out
    assert lab_command("history", "iops") == 0
    assert "pass" not in capsys.readouterr().out


def test_json_has_every_run_and_the_band(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [100.0, 102.0, 101.0, 103.0])
    assert lab_command("history", "--json", "--topology", "vioscsi") == 0
    document = json.loads(capsys.readouterr().out)
    trend = next(each for each in document["trends"] if each["metric"] == "iops")
    assert [each["boots"] for each in trend["runs"]] == [[100.0], [102.0], [101.0], [103.0]]
    assert trend["low"] < trend["last"] < trend["high"]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)
        assert not any(name in ("src", "href") for name, _ in attrs), "the page stands alone"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_shows_every_run(lab_command: Command, tmp_path: Path) -> None:
    record(tmp_path, [100.0, 102.0, 101.0, 103.0])
    page = tmp_path / "history.html"
    assert lab_command("history", "iops", "--html", str(page)) == 0
    tags = Tags()
    tags.feed(page.read_text())
    assert not tags.open
    assert tags.seen.count("circle") == 4
    assert "prefers-color-scheme: dark" in page.read_text()


def test_nothing_recorded_and_nothing_that_matches_are_told_apart(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab_command("history") == 4
    assert "no run is recorded yet" in capsys.readouterr().err
    record(tmp_path, [1.0])
    assert lab_command("history", "iosp") == 4
    assert "metrics: iops, kicks" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_the_users_to_know(
    lab_command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [1.0])
    assert lab_command("history", "--html", str(tmp_path / "no" / "where.html")) == 2
    assert "where.html" in capsys.readouterr().err
