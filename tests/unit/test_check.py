"""What `lab check` measures of a topology, and how it reports what went well and what did not."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.check import CheckReport, run_check
from lab.check_plan import Profile, plan_checks
from lab.deadline import Deadline
from lab.errors import Exit, LabError
from lab.guest.agent_client import AgentClient, AgentError, Metric, Result
from lab.guest.workloads import Fio, Iperf3Client, PerftestClient, PerftestServer, Workload
from lab.progress import Progress
from lab.topology.model import Topology

PAIR: dict[str, Any] = {
    "name": "pair",
    "segments": {"lan": {"mtu": 9000}},
    "guests": {
        name: {
            "disks": {"data0": {"size": "1GiB"}},
            "nics": {"lan0": {"segment": "lan"}},
            "rdma": {"rxe0": {"nic": "lan0"}},
        }
        for name in ("client", "server")
    },
}
ALL = ("write_throughput", "read_throughput", "write_iops", "read_iops", "throughput",
       "rtt_p50", "bandwidth", "latency_p50")  # fmt: skip


class FakeAgent:
    """Answers every workload with 1, 2, 3...; `fail` says what goes wrong instead."""

    def __init__(self, guest: str, ran: list[tuple[str, Workload]]) -> None:
        self.guest = guest
        self.ran = ran
        self.fail: Mapping[type[Workload], LabError] = {}
        self.idle: set[type[Workload]] = set()
        self.count = 0

    def run(self, workload: Workload, *, deadline: Deadline) -> Result:
        self.ran.append((self.guest, workload))
        if type(workload) in self.fail:
            raise self.fail[type(workload)]
        self.count += 1
        value = 0 if type(workload) in self.idle else self.count
        metrics = tuple(Metric(name, "1", "higher", value) for name in ALL)
        return Result(workload.name, metrics, {}, None, "", partial=False)

    @contextlib.contextmanager
    def start(self, workload: Workload, *, deadline: Deadline) -> Iterator[Any]:
        self.ran.append((self.guest, workload))
        yield SimpleNamespace(port=4711)


class FakeLab:
    accelerator = "tcg"

    def __init__(self, topology: dict[str, Any] = PAIR) -> None:
        self.topology = Topology.model_validate(topology)
        self.ran: list[tuple[str, Workload]] = []
        self.agents = {name: FakeAgent(name, self.ran) for name in self.topology.guests}
        self.opened: Counter[str] = Counter()
        self.unsettled: dict[str, LabError] = {}

    @property
    def guests(self) -> dict[str, Any]:
        return {name: FakeGuest(self, name) for name in self.topology.guests}

    def workloads(self, kind: type[Workload]) -> list[tuple[str, Any]]:
        return [(guest, workload) for guest, workload in self.ran if isinstance(workload, kind)]


class FakeGuest:
    def __init__(self, lab: FakeLab, name: str) -> None:
        self._lab = lab
        self._name = name
        number = list(lab.topology.guests).index(name) + 1
        nics = lab.topology.guests[name].nics
        self.addresses = {nic: IPv4Address(f"10.64.0.{number}") for nic in nics}

    def settle(self, deadline: Deadline) -> None:
        if error := self._lab.unsettled.get(self._name):
            raise error

    @contextlib.contextmanager
    def agent(self) -> Iterator[AgentClient]:
        self._lab.opened[self._name] += 1
        yield cast(AgentClient, self._lab.agents[self._name])


def checked(lab: FakeLab, **profile: Any) -> CheckReport:
    return run_check(
        lab, deadline=Deadline(60), progress=Progress(quiet=True), profile=Profile(**profile)
    )


def refusal(where: str) -> AgentError:
    return AgentError("fio: disk data0 is not free", kind="refused", where=where)


def test_a_guest_that_does_not_settle_is_measured_no_more() -> None:
    lab = FakeLab()
    lab.unsettled["server"] = LabError("systemd is maintenance", where="guest server")
    report = checked(lab)
    assert report.exit_code is Exit.BROKEN_LAB
    assert {guest for guest, _ in lab.ran} == {"client"}
    assert all("maintenance" in (row.error or "") for row in report.rows if "server" in row.place)


def test_a_link_that_carries_nothing_has_failed() -> None:
    lab = FakeLab()
    lab.agents["client"].idle = {PerftestClient}
    rows = {row.what: row for row in checked(lab).rows}
    assert "carried nothing" in (rows["RDMA write 64 KiB"].error or "")
    assert rows["TCP, one connection"].error is None


def test_a_pair_is_measured_in_all_its_parts() -> None:
    rows = [(row.what, row.place, row.fidelity) for row in checked(FakeLab()).rows]
    assert rows == [
        *[
            (what, f"{guest} data0", "native")
            for guest in ("client", "server")
            for what in ("write 1 MiB", "read 1 MiB", "write 4 KiB random", "read 4 KiB random")
        ],
        ("TCP, one connection", "client -> server lan0", "native"),
        ("TCP, one connection", "server -> client lan0", "native"),
        ("UDP round trip, p50", "client -> server lan0", "native"),
        ("RDMA write 64 KiB", "client -> server rxe0", "emulated"),
        ("RDMA write latency, p50", "client -> server rxe0", "emulated"),
    ]


def test_only_data_disks_are_touched() -> None:
    lab = FakeLab()
    checked(lab)
    assert {workload.disk for _, workload in lab.workloads(Fio)} == {"data0"}


def test_clients_reach_the_servers_data_address_and_port() -> None:
    lab = FakeLab()
    checked(lab)
    (to_server, to_client) = lab.workloads(Iperf3Client)
    assert to_server[0] == "client"
    assert (to_server[1].address, to_server[1].port) == ("10.64.0.2", 4711)
    assert to_client[0] == "server"
    assert to_client[1].address == "10.64.0.1"


def test_both_ends_of_an_rdma_test_agree() -> None:
    lab = FakeLab()
    checked(lab)
    for (_, server), (_, client) in zip(
        lab.workloads(PerftestServer), lab.workloads(PerftestClient), strict=True
    ):
        for name in ("test", "message_bytes", "iterations", "runtime_s"):
            assert getattr(server, name) == getattr(client, name)
        assert server.gid_address == client.address == "10.64.0.2"
        assert client.gid_address == "10.64.0.1"


def test_emulated_nics_are_said_to_be() -> None:
    guests = {name: {"nics": {"lan0": {"segment": "lan", "model": "e1000e"}}} for name in "ab"}
    lab = FakeLab({**PAIR, "guests": guests})
    assert {check.fidelity for check in plan_checks(lab, Profile())} == {"emulated"}


def test_guests_without_a_common_segment_are_not_paired() -> None:
    topology = {
        "name": "apart",
        "segments": {"one": {}, "two": {}},
        "guests": {
            "a": {"nics": {"lan0": {"segment": "one"}}},
            "b": {"nics": {"lan0": {"segment": "two"}}},
        },
    }
    report = checked(FakeLab(topology))
    assert report.rows == ()
    assert report.exit_code == Exit.NOTHING_MEASURED


def test_runs_are_repeated_and_the_median_is_shown() -> None:
    lab = FakeLab()
    row = checked(lab, runs=3).rows[0]
    assert [figure.value for figure in row.figures] == [1, 2, 3]
    assert row.median == Metric("write_throughput", "1", "higher", 2)


def test_each_guest_has_one_conversation() -> None:
    lab = FakeLab()
    assert checked(lab).exit_code == Exit.OK
    assert lab.opened == {"client": 1, "server": 1}


def test_a_refused_measurement_fails_alone() -> None:
    lab = FakeLab()
    lab.agents["client"].fail = {Fio: refusal("guest client")}
    report = checked(lab)
    failed = [row.place for row in report.rows if row.error]
    assert failed == ["client data0"] * 4
    assert report.exit_code == Exit.BROKEN_LAB
    assert "not free" in str(report.rows[0].error)


def test_a_lost_guest_fails_all_that_needs_it_and_is_not_asked_again() -> None:
    lab = FakeLab()
    lab.agents["client"].fail = {Fio: LabError("the agent ended", where="guest client")}
    report = checked(lab)
    assert [row.place for row in report.rows if not row.error] == ["server data0"] * 4
    assert len([guest for guest, _ in lab.ran if guest == "client"]) == 1


def test_nothing_measured_is_told_from_a_failure() -> None:
    lab = FakeLab()
    for name, agent in lab.agents.items():
        agent.fail = {Fio: LabError("the agent ended", where=f"guest {name}")}
    assert checked(lab).exit_code == Exit.NOTHING_MEASURED


def test_an_expired_deadline_fails_the_rest() -> None:
    lab = FakeLab()
    report = run_check(lab, deadline=Deadline(0), progress=Progress(quiet=True), profile=Profile())
    assert not lab.ran
    assert all("timed out" in str(row.error) for row in report.rows)


@pytest.mark.parametrize("runs", [1, 3])
def test_the_table_and_json_carry_every_row(runs: int, capsys: pytest.CaptureFixture[str]) -> None:
    from lab.cli.check import as_document, print_table

    lab = FakeLab()
    lab.agents["server"].fail = {Fio: refusal("guest server")}
    report = checked(lab, runs=runs)
    document = as_document(report)
    assert [len(row["values"]) for row in document["rows"]] == [
        0 if row.error else runs for row in report.rows
    ]
    print_table(report)
    shown = capsys.readouterr()
    assert shown.out.count("tcg") == len(report.rows)
    assert shown.out.count("failed") == 4
    assert "guest server: fio: disk data0 is not free" in shown.err
