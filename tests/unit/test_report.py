"""Reports of one example run: golden texts, and what other programs make of them.

LAB_GOLDEN=write writes the golden files anew.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from lab.errors import LabError
from lab.experiments.findings import Finding, Verdict
from lab.report import wording
from lab.report.json_report import document
from lab.report.junit import junit
from lab.report.model import Report
from lab.report.terminal import print_report
from lab.report.write import write
from tests.unit.report_example import example

GOLDEN = Path(__file__).parents[1] / "data" / "report"


@pytest.fixture(scope="module")
def report() -> Report:
    return example()


def assert_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("LAB_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def printed(report: Report, *, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_report(report, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def finding(**told: object) -> Finding:
    fields = {
        "experiment": "e",
        "gate": "g",
        "metric": "m",
        "unit": "us",
        "kind": "change",
        "claim": "c",
        "verdict": Verdict.PASS,
    }
    return Finding(**{**fields, **told})  # type: ignore[arg-type]


def with_verdict(report: Report, verdict: Verdict) -> Report:
    return replace(report, findings=(replace(report.findings[0], verdict=verdict, why="reason"),))


def test_terminal(report: Report) -> None:
    assert_golden("terminal.txt", printed(report))


def test_the_terminal_has_no_colour_where_there_is_none(report: Report) -> None:
    assert "\x1b" not in printed(report)


def test_the_command_to_repeat_is_never_wrapped(report: Report) -> None:
    command = "lab validate " + "a/long/path/" * 20
    long = replace(report, manifest=replace(report.manifest, command=command))
    assert f"repeat with: {command}\n" in printed(long)


def test_brackets_of_a_claim_are_no_markup(report: Report) -> None:
    first = replace(
        report.findings[0], reference="[bold]", verdict=Verdict.FAIL, why="[red]x[/red]"
    )
    text = printed(replace(report, findings=(first,)))
    assert "[bold]" in text
    assert "[red]x[/red]" in text


def test_json(report: Report) -> None:
    assert_golden("report.json", json.dumps(document(report), indent=1) + "\n")


def test_json_has_null_for_what_is_not_finite(report: Report) -> None:
    unbounded = replace(report.findings[0], high=float("inf"))
    told = document(replace(report, findings=(unbounded,)))
    json.dumps(told, allow_nan=False)
    assert told["findings"][0]["high"] is None


def test_junit(report: Report) -> None:
    assert_golden("report.junit.xml", junit(report))


def test_junit_has_a_suite_an_experiment_and_a_case_a_gate(report: Report) -> None:
    root = ElementTree.fromstring(junit(report))
    found = [
        (suite.get("name"), case.get("name")) for suite in root for case in suite.iter("testcase")
    ]
    assert found == [(each.experiment, each.gate) for each in report.findings]
    for suite in root:
        cases = list(suite.iter("testcase"))
        assert suite.get("tests") == str(len(cases))
        for attribute, element in (
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            held = [case for case in cases if case.find(element) is not None]
            assert suite.get(attribute) == str(len(held))
        assert sum(int(suite.get(each, "")) for each in ("failures", "errors", "skipped")) <= len(
            cases
        )


@pytest.mark.parametrize(
    ("verdict", "element"),
    [
        (Verdict.PASS, None),
        (Verdict.REPORTED, None),
        (Verdict.FAIL, "failure"),
        (Verdict.BROKEN_LAB, "error"),
        (Verdict.NOTHING_MEASURED, "error"),
        (Verdict.INCONCLUSIVE, "skipped"),
        (Verdict.KNOWN, "skipped"),
    ],
)
def test_junit_says_each_verdict(report: Report, verdict: Verdict, element: str | None) -> None:
    case = ElementTree.fromstring(junit(with_verdict(report, verdict))).find(".//testcase")
    assert case is not None
    said = [each for each in case if each.tag in ("failure", "error", "skipped")]
    assert [each.tag for each in said] == ([element] if element else [])
    assert [each.get("message") for each in said] == ([f"{verdict}: reason"] if element else [])
    assert case.find(f"properties/property[@name='verdict'][@value='{verdict}']") is not None


def test_junit_holds_what_xml_cannot(report: Report) -> None:
    dirty = replace(report.findings[0], verdict=Verdict.FAIL, why="\x00\x1b[0m <&> \ud800 \uffff")
    case = ElementTree.fromstring(junit(replace(report, findings=(dirty,)))).find(".//failure")
    assert case is not None
    assert case.get("message") == "fail: \ufffd\ufffd[0m <&> \ufffd \ufffd"


def test_files_are_written_whole(tmp_path: Path) -> None:
    paths = write(example(tmp_path))
    assert [path.name for path in paths] == ["report.html", "report.json", "report.junit.xml"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert json.loads(paths[1].read_text())["verdict"] == "fail"


def test_a_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"gone/report\.html: cannot write a report"):
        write(example(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("reference", "share"),
    [
        ("+49.9 %", 0.499),
        ("-8 %", -0.08),
        ("-33.2%", -0.332),
        ("4 of 5 tries", None),
        ("+40 % on the midpoint", 0.4),
        ("60 %", None),
        ("+5 % to +9 %", None),
        ("", None),
    ],
)
def test_a_published_change_is_a_percentage_with_a_sign(
    reference: str, share: float | None
) -> None:
    assert wording.published_share(reference) == (None if share is None else pytest.approx(share))


def test_figures_of_each_kind() -> None:
    change = finding(estimate=0.1234, low=-0.01, high=float("inf"))
    assert wording.measured(change) == "+12.3 %"
    assert wording.interval(change) == "-1.0 % .. unbounded"
    assert wording.interval(finding(low=-1, high=1.2e10)) == "-100 % .. > +10,000 %"
    value = finding(kind="value", estimate=12345.6, low=0.001234, high=2)
    assert wording.measured(value) == "12,346 us"
    assert wording.interval(value) == "0.001234 .. 2"
    assert wording.measured(finding(kind="rate", estimate=0.25)) == "25.0 %"
    assert wording.measured(finding()) == "-"
    assert wording.interval(finding()) == ""


def test_a_note_that_several_gates_have_is_said_once(report: Report) -> None:
    note = "boot 6 broke"
    noted = tuple(replace(each, notes=(note,)) for each in report.of("inside"))
    text = printed(replace(report, findings=noted))
    assert text.count(note) == 1
    assert f"5 gates: {note}" in text


def test_a_warning_that_a_gate_notes_is_said_once(report: Report) -> None:
    warning = report.boots[2].warnings[0]
    noted = replace(report.findings[0], notes=(f"boot 3: {warning}",))
    assert printed(replace(report, findings=(noted,))).count(f"boot 3: {warning}") == 1
    assert f"boot 3: {warning}" in printed(report)
