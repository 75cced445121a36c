"""The files of a report, in the run's directory."""

from __future__ import annotations

import json
from pathlib import Path

from lab.errors import LabError
from lab.report.html import html
from lab.report.json_report import document
from lab.report.junit import junit
from lab.report.model import Report


def write(report: Report) -> list[Path]:
    """Write report.html, report.json and report.junit.xml; each is replaced as a whole.

    Raises LabError where they cannot be written.
    """
    texts = {
        "report.html": html(report),
        "report.json": json.dumps(document(report), indent=1, allow_nan=False) + "\n",
        "report.junit.xml": junit(report),
    }
    paths = []
    for name, text in texts.items():
        path = report.directory / name
        try:
            partial = path.with_name(f"{name}.partial")
            partial.write_text(text, encoding="utf-8", errors="replace")
            partial.replace(path)
        except OSError as error:
            raise LabError(
                f"cannot write a report: {error.strerror}",
                where=str(path),
                hint=f"make room, then `lab report {report.directory}`",
            ) from error
        paths.append(path)
    return paths
