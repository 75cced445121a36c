"""The agent as one file: an executable zip archive, the same bytes for the same sources.

Stored, not compressed, so that the guest needs no zlib to start; without bytecode, which only
one version of Python could use. `-IS` keeps Python from looking for site packages: that and
much else at start costs tenths of a second in an emulated guest.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from lab.errors import InputError

SOURCES = Path(__file__).resolve().parents[2] / "guests" / "agent"
SHEBANG = b"#!/usr/bin/python3 -IS\n"
# The oldest time that a zip archive can hold; the same for every file.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_VERSION_MODULE = "datapath_agent/version.py"
_MAIN = b"import sys\n\nfrom datapath_agent.main import main\n\nsys.exit(main())\n"


@functools.cache
def agent_bytes(sources: Path = SOURCES) -> bytes:
    """The executable that a guest gets as `datapath-agent`.

    `sources` is a directory with the package `datapath_agent`; another build of the agent has
    another. Raises InputError where there is none.
    """
    files = _sources(sources)
    files[_VERSION_MODULE] = (
        f'"""Written by the build."""\n\nVERSION = "{agent_version(sources)}"\n'.encode()
    )
    files["__main__.py"] = _MAIN
    return SHEBANG + _archive(files)


@functools.cache
def agent_version(sources: Path = SOURCES) -> str:
    """A hash over names and contents of all sources: what `hello` of this agent reports."""
    digest = hashlib.sha256()
    for name, data in sorted(_sources(sources).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


def _sources(sources: Path) -> dict[str, bytes]:
    found = {
        path.relative_to(sources).as_posix(): path.read_bytes()
        for path in (sources / "datapath_agent").rglob("*.py")
    }
    if "datapath_agent/main.py" not in found:
        raise InputError("no agent here: there is no datapath_agent/main.py", where=str(sources))
    return found


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, whatever system builds it
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
