"""The seed of a guest: golden set-up scripts, and a shell that accepts them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.guest.setup import seed_tree, setup_script
from lab.plan import GuestPlan, Identity, LabPlan, plan
from lab.topology.load import load

ROOT = Path(__file__).parents[2]
CASES = {
    "default-client": (ROOT / "topologies/default.yaml", "client"),
    "everything": (ROOT / "tests/data/domain/everything.yaml", "all"),
}


def planned(case: str) -> tuple[LabPlan, GuestPlan]:
    path, guest = CASES[case]
    lab = plan(load(path).topology, Identity("golden", "3f9a1c", 5), Path("/labs/golden"))
    return lab, lab.guests[guest]


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    assert setup_script(planned(case)[1]) == (ROOT / f"tests/data/setup/{case}.sh").read_text()


@pytest.mark.parametrize("case", CASES)
def test_a_shell_parses_it(case: str) -> None:
    subprocess.run(["sh", "-n"], input=setup_script(planned(case)[1]), text=True, check=True)


def test_the_seed_carries_credentials_that_only_root_reads() -> None:
    lab, guest = planned("default-client")
    tree = seed_tree(
        guest,
        lab,
        host_key=b"private",
        host_public_key="ssh-ed25519 public",
        authorized_key="ssh-ed25519 login",
        agent=b"#!agent",
    )
    assert tree["/etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert tree["/root/.ssh/authorized_keys"].data == b"ssh-ed25519 login\n"
    assert tree["/usr/local/bin/datapath-agent"].mode == 0o755
    assert tree["/etc/hostname"].data == b"client\n"
    hosts = tree["/etc/hosts"].data.decode()
    assert "10.65.64.1 client client-lan0\n10.65.64.2 server server-lan0\n" in hosts
