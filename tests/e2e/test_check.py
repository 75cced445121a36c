"""`lab check` and the agent over two guests: every row measured, and the agent kept current."""

from __future__ import annotations

import json

import pytest

from lab.deadline import Deadline
from lab.guest.agent_client import AgentClient, AgentError
from lab.guest.agent_file import agent_bytes, agent_version
from lab.guest.deploy import update_agents
from lab.guest.setup import AGENT_PATH
from lab.guest.workloads import Fio, UdpRrClient, UdpRrServer
from lab.progress import Progress
from lab.running import RunningGuest, RunningLab
from tests.e2e.support import lab_command


def test_every_disk_link_and_rdma_device_is_measured(lab: RunningLab) -> None:
    done = lab_command("check", lab.record.identity.name, "--runtime", "1s", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["accelerator"] == lab.accelerator
    rows = report["rows"]
    assert all(row["value"] > 0 and row["error"] is None for row in rows)
    storage = {row["guests"] for row in rows if row["unit"] in ("MiB/s", "IOPS")}
    assert storage >= {"client data0", "client data1", "server data0", "server data1"}
    assert sum(row["what"].startswith("TCP") for row in rows) == 2
    assert {row["fidelity"] for row in rows if "RDMA" in row["what"]} == {"emulated"}
    assert sum("RDMA" in row["what"] for row in rows) == 2


def test_the_root_disk_is_never_measured(agent: AgentClient) -> None:
    with pytest.raises(AgentError, match="root"):
        agent.run(
            Fio(disk="root", pattern="write", block_bytes=4096, iodepth=1, runtime_s=1.0),
            deadline=Deadline(60),
        )


def test_request_and_response_across_guests(
    lab: RunningLab, client: RunningGuest, server: RunningGuest
) -> None:
    address = str(server.addresses["lan0"])
    with (
        server.agent() as there,
        client.agent() as here,
        there.start(UdpRrServer(address=address), deadline=lab.scaled(15)) as listening,
    ):
        result = here.run(
            UdpRrClient(address=address, port=listening.port, runtime_s=1.0),
            deadline=lab.scaled(15),
        )
    assert result["rps"].value > 0
    assert len(next(iter(result.samples.values()))) > 10


def test_the_agent_goes_with_its_channel(client: RunningGuest) -> None:
    with client.agent() as agent:
        agent.hello(Deadline(60))
        assert client.host.run(f"pgrep -f {AGENT_PATH}").rc == 0
    deadline = Deadline(10)
    deadline.poll(lambda: client.host.run("pgrep -f [d]atapath-agent").rc != 0, "the agent to end")


def test_an_outdated_agent_is_deployed_again_and_only_then(
    lab: RunningLab, client: RunningGuest
) -> None:
    assert not update_agents(lab, progress=Progress(quiet=True))
    # The archive is stored, not compressed: an agent of another version differs in one word.
    version = agent_version().encode()
    with client.session().sftp() as sftp, sftp.file(AGENT_PATH, "wb") as file:
        file.write(agent_bytes().replace(version, b"0" * len(version)))
    with client.agent() as agent:
        assert agent.hello(Deadline(60)).version == "0" * len(version)
    assert update_agents(lab, progress=Progress(quiet=True)) == "client"
    with client.agent() as agent:
        assert agent.hello(Deadline(60)).version == agent_version()
