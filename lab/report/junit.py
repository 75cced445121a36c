"""A report as JUnit XML, as CI systems read it: a suite an experiment, a case a gate.

Attributes and order of elements as in the JUnit schema of Jenkins' xUnit plugin (junit-10.xsd).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from lab.experiments.findings import Finding, Verdict
from lab.report import wording
from lab.report.model import Report

# How a case that did not pass is said. An inconclusive gate shows no fault: it is no failure, but
# must not look passed either.
_ELEMENTS = {
    Verdict.FAIL: "failure",
    Verdict.BROKEN_LAB: "error",
    Verdict.NOTHING_MEASURED: "error",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.KNOWN: "skipped",
}
# XML 1.0 has no way to write these; consoles and errors of guests may hold them.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The XML document. Times are the sums of the trials', in seconds."""
    suites = Element("testsuites", name=_text(report.manifest.topology))
    for name in report.experiments:
        findings = report.of(name)
        elapsed_s = sum(trial.elapsed_s for trial in report.trials if trial.experiment == name)
        suite = SubElement(
            suites,
            "testsuite",
            name=_text(name),
            timestamp=report.manifest.created.partition("+")[0],
            time=f"{elapsed_s:.3f}",
        )
        _count(suite, findings)
        properties = SubElement(suite, "properties")
        manifest = report.manifest
        for key, value in {
            "run": manifest.id,
            "accelerator": manifest.accelerator,
            "fidelity": wording.fidelity(report),
            "profile": manifest.profile,
            "seed": str(manifest.seed),
            "command": manifest.command,
        }.items():
            _property(properties, key, value)
        for finding in findings:
            suite.append(_case(report.manifest.topology, finding))
    _count(suites, report.findings)
    ElementTree.indent(suites, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(
        suites, encoding="unicode"
    )


def _count(suite: Element, findings: Sequence[Finding]) -> None:
    kinds = [_ELEMENTS.get(finding.verdict) for finding in findings]
    suite.set("tests", str(len(kinds)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(kinds.count(kind)))


def _case(topology: str, finding: Finding) -> Element:
    case = Element(
        "testcase",
        classname=_text(f"{topology}.{finding.experiment}"),
        name=_text(finding.gate),
        time="0",
    )
    properties = SubElement(case, "properties")
    _property(properties, "verdict", str(finding.verdict))
    for key in ("estimate", "low", "high", "detectable", "more_boots"):
        value = getattr(finding, key)
        if value is not None:
            _property(properties, key, f"{value:g}")
    if kind := _ELEMENTS.get(finding.verdict):
        message = f"{finding.verdict}: {finding.why or finding.claim}"
        told = SubElement(case, kind, message=_text(message))
        if kind != "skipped":
            told.set("type", str(finding.verdict))
            told.text = _text("\n".join(_lines(finding)))
    SubElement(case, "system-out").text = _text("\n".join(_lines(finding)))
    return case


def _lines(finding: Finding) -> list[str]:
    between = wording.interval(finding)
    figures = wording.measured(finding) + (f" ({between})" if between else "")
    lines = [f"claimed: {finding.claim}", f"{finding.metric}: {figures}"]
    if finding.reference:
        lines.append(f"published: {finding.reference}")
    return lines + wording.remarks(finding)


def _property(properties: Element, name: str, value: str) -> None:
    SubElement(properties, "property", name=name, value=_text(value))


def _text(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
