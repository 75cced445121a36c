"""Deploys the agent into running guests with ansible/guest.yml.

At bring-up the agent arrives in the guest's seed; this is for a lab that was up already when
the agent changed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab.deadline import Deadline
from lab.errors import LabError
from lab.guest.agent_client import AgentClient
from lab.guest.agent_file import agent_bytes, agent_version
from lab.process import Completed, run, tail
from lab.progress import Progress

PLAYBOOK = Path(__file__).resolve().parents[2] / "ansible" / "guest.yml"
# Three modules' worth of Python in an emulated guest, and a log-in.
DEPLOY_S = 180.0
HELLO_S = 60.0


@dataclass(frozen=True)
class DeployTarget:
    """A guest as the host's ssh client reaches it, on 127.0.0.1."""

    name: str
    port: int
    user: str
    key_path: Path
    known_hosts_path: Path


def deploy(
    guests: Sequence[DeployTarget], agent: bytes, *, deadline: Deadline, progress: Progress
) -> None:
    """Install `agent` in all `guests` at once. Raises LabError naming those where it failed."""
    names = ", ".join(guest.name for guest in guests)
    with (
        progress.step(f"deploy the agent to {names}"),
        tempfile.TemporaryDirectory(prefix="lab-deploy-") as directory,
    ):
        agent_file = Path(directory) / "datapath-agent"
        agent_file.write_bytes(agent)
        (Path(directory) / "ansible.cfg").touch()
        inventory_file = Path(directory) / "inventory.json"
        inventory_file.write_text(json.dumps(inventory(guests)))
        done = run(
            [
                Path(sys.executable).parent / "ansible-playbook",
                "-i", inventory_file, "-e", f"agent_file={agent_file}", PLAYBOOK,
            ],
            deadline=deadline,
            check=False,
            env=_environment(Path(directory), len(guests)),
        )  # fmt: skip
        if done.returncode != 0:
            raise _failure(done)


def inventory(guests: Sequence[DeployTarget]) -> dict[str, Any]:
    """Ansible's inventory of `guests`: host keys pinned, one connection for all of a play."""
    return {
        "all": {
            "hosts": {
                guest.name: {
                    "ansible_host": "127.0.0.1",
                    "ansible_port": guest.port,
                    "ansible_user": guest.user,
                    "ansible_ssh_private_key_file": str(guest.key_path),
                    "ansible_python_interpreter": "/usr/bin/python3",
                    "ansible_ssh_common_args": (
                        f"-o UserKnownHostsFile={guest.known_hosts_path}"
                        " -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
                        " -o KexAlgorithms=curve25519-sha256"
                    ),
                }
                for guest in guests
            }
        }
    }


def _environment(directory: Path, guests: int) -> Mapping[str, str]:
    return {
        # The lab's own settings only, whatever the user's ansible.cfg says.
        "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(directory / "local"),
        "ANSIBLE_HOME": str(directory / "home"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "ANSIBLE_FORKS": str(guests),
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_NOCOLOR": "true",
        # Logging in is slow in an emulated guest: all steps share a connection, which outlasts
        # them by seconds. Measured: 6-7 s a deployment with it, 7-8 s without.
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=5s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(directory / "cp"),
        "ANSIBLE_TIMEOUT": "60",
    }


def _failure(done: Completed) -> LabError:
    failed = failed_guests(done.stdout)
    return LabError(
        f"the agent could not be deployed to {', '.join(failed) or 'the guests'}",
        detail=tail(done.stdout + done.stderr),
        hint="`lab status` shows whether the guest runs, `lab console GUEST` what it says",
        elapsed_s=done.elapsed_s,
    )


def failed_guests(output: str) -> list[str]:
    """Guests that ansible's recap counts as failed or unreachable."""
    _, _, recap = output.partition("PLAY RECAP")
    return [
        line.split()[0]
        for line in recap.splitlines()[1:]
        if ":" in line and ("failed=0" not in line or "unreachable=0" not in line)
    ]


class _Target(Protocol):
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def key(self) -> Path: ...


class _Guest(Protocol):
    @property
    def target(self) -> _Target: ...
    def agent(self) -> AbstractContextManager[AgentClient]: ...


class _Keyring(Protocol):
    @property
    def known_hosts(self) -> Path: ...


class _Lab(Protocol):
    @property
    def guests(self) -> Mapping[str, _Guest]: ...
    @property
    def keyring(self) -> _Keyring: ...


def update_agents(lab: _Lab, *, progress: Progress) -> str:
    """Deploy to the guests whose agent is not this lab's; their names, empty if there were none."""
    outdated = [name for name, guest in lab.guests.items() if not _is_current(guest)]
    targets = [
        DeployTarget(
            name=name,
            port=lab.guests[name].target.port,
            user=lab.guests[name].target.user,
            key_path=lab.guests[name].target.key,
            known_hosts_path=lab.keyring.known_hosts,
        )
        for name in outdated
    ]
    if targets:
        deploy(targets, agent_bytes(), deadline=Deadline(DEPLOY_S), progress=progress)
    return ", ".join(outdated)


def _is_current(guest: _Guest) -> bool:
    with guest.agent() as agent:
        return agent.hello(Deadline(HELLO_S)).version == agent_version()
