"""The one-file agent, and the host's models of what it can run."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from datapath_agent import registry
from datapath_agent.parameters import REQUIRED

from lab.errors import InputError
from lab.guest.agent_file import agent_bytes, agent_version
from lab.guest.workloads import WORKLOADS, Workload


def test_same_sources_give_the_same_bytes() -> None:
    command = (
        "import sys; from lab.guest.agent_file import *; sys.stdout.buffer.write(agent_bytes())"
    )
    builds = {
        subprocess.run(
            [sys.executable, "-c", command],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "TZ": zone},
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert builds == {agent_bytes()}


def test_the_version_follows_the_sources(tmp_path: Path) -> None:
    package = tmp_path / "datapath_agent"
    package.mkdir()
    (package / "main.py").write_text("one")
    build = agent_version.__wrapped__
    first = build(tmp_path)
    assert build(tmp_path) == first
    (package / "main.py").write_text("two")
    assert build(tmp_path) != first


def test_a_directory_without_an_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no agent here"):
        agent_bytes(tmp_path)


def test_it_is_an_executable_archive_of_sources_only() -> None:
    data = agent_bytes()
    assert data.startswith(b"#!/usr/bin/python3 -IS\n")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    assert names == sorted(names)
    assert "__main__.py" in names
    assert all(name.endswith(".py") for name in names)


def test_host_and_agent_know_the_same_workloads() -> None:
    assert sorted(workload.name for workload in WORKLOADS) == sorted(registry.WORKLOADS)


@pytest.mark.parametrize("model", WORKLOADS, ids=lambda model: model.name)
def test_host_and_agent_agree_on_parameters(model: type[Workload]) -> None:
    hints = get_type_hints(model)
    declared = {}
    for field in fields(model):
        hint = hints[field.name]
        is_choice = get_origin(hint) is Literal
        declared[field.name] = (
            str if is_choice else hint,
            REQUIRED if field.default is MISSING else field.default,
            get_args(hint) if is_choice else (),
        )
    assert declared == {
        parameter.name: (parameter.kind, parameter.default, parameter.choices)
        for parameter in registry.find(model.name).parameters
    }
