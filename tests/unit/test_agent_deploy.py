"""Deploying the agent with ansible: what it is given, and what its failures become."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.deadline import Deadline
from lab.errors import LabError
from lab.guest import deploy
from lab.guest.agent_client import Hello
from lab.guest.agent_file import agent_version
from lab.guest.deploy import DeployTarget, failed_guests, inventory, update_agents
from lab.progress import Progress

RECAP = """
PLAY RECAP *********************************************************************
client                     : ok=1    changed=1    unreachable=0    failed=0    skipped=0
server                     : ok=0    changed=0    unreachable=1    failed=0    skipped=0
third                      : ok=0    changed=0    unreachable=0    failed=1    skipped=0
"""


def target(name: str, port: int = 1) -> DeployTarget:
    return DeployTarget(name, port, "root", Path("/k/id"), Path("/k/known_hosts"))


def test_host_keys_are_pinned_in_the_inventory() -> None:
    hosts = inventory([target("client", 22000)])["all"]["hosts"]
    assert hosts["client"]["ansible_port"] == 22000
    assert "StrictHostKeyChecking=yes" in hosts["client"]["ansible_ssh_common_args"]
    assert "UserKnownHostsFile=/k/known_hosts" in hosts["client"]["ansible_ssh_common_args"]


def test_the_recap_tells_which_guests_failed() -> None:
    assert failed_guests(RECAP) == ["server", "third"]


def test_a_guest_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """The real ansible-playbook, against a port on which nothing listens."""
    (tmp_path / "id").touch(mode=0o600)
    unreachable = DeployTarget("server", 9, "root", tmp_path / "id", tmp_path / "known_hosts")
    with pytest.raises(LabError, match="could not be deployed to server") as caught:
        deploy.deploy([unreachable], b"x", deadline=Deadline(60), progress=Progress(quiet=True))
    assert "Connection refused" in str(caught.value)


def guest(version: str) -> Any:
    @contextlib.contextmanager
    def agent() -> Iterator[Any]:
        yield SimpleNamespace(hello=lambda _deadline: Hello(version, "3", "6", {}))

    return SimpleNamespace(
        agent=agent, target=SimpleNamespace(port=22001, user="root", key=Path("/k/id"))
    )


def test_only_guests_with_another_agent_are_deployed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed: list[str] = []
    monkeypatch.setattr(
        deploy, "deploy", lambda guests, *_, **__: deployed.extend(each.name for each in guests)
    )
    lab = SimpleNamespace(
        guests={"old": guest("0123"), "new": guest(agent_version())},
        keyring=SimpleNamespace(known_hosts=Path("/k/known_hosts")),
    )
    assert update_agents(lab, progress=Progress(quiet=True)) == "old"
    assert deployed == ["old"]
    del lab.guests["old"]
    assert update_agents(lab, progress=Progress(quiet=True)) == ""
    assert deployed == ["old"]
