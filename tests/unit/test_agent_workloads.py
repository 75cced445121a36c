"""Reports of the guest's tools, recorded in Debian 12: read right, or refused with a reason."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datapath_agent import disks, rdma
from datapath_agent.measurement import percentiles
from datapath_agent.protocol import Fault
from datapath_agent.workloads import fio, iperf3, perftest, sockperf
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[1] / "data" / "agent"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def values(metrics: list[dict[str, Any]]) -> dict[str, float]:
    return {metric["name"]: metric["value"] for metric in metrics}


def test_fio_reports_the_side_that_ran() -> None:
    metrics, raw = fio.parse(recorded("fio-randwrite.json"))
    assert values(metrics) == {
        "write_iops": 10952.023988,
        "write_throughput": pytest.approx(42.78, abs=0.01),
        "write_latency_mean": pytest.approx(2838.934, abs=0.001),
        "write_latency_p50": 2801.664,
        "write_latency_p99": 6455.296,
        "write_latency_p99_9": 9633.792,
        "write_latency_max": pytest.approx(11234.99),
    }
    assert raw["jobs"][0]["write"]["clat_ns"]["bins"]


def test_fio_cut_short_still_reports_behind_its_message() -> None:
    text = recorded("fio-interrupted.json")
    assert text.lstrip().startswith("fio: terminating")
    assert {"read_iops", "write_iops"} <= values(fio.parse(text)[0]).keys()


def test_fio_without_a_request_is_no_measurement() -> None:
    with pytest.raises(Fault, match="no request"):
        fio.parse(recorded("fio-failed.json"))


def test_fio_never_forks_jobs_that_could_escape() -> None:
    parameters = {
        "disk": "data0", "pattern": "randread", "block_bytes": 4096, "iodepth": 8,
        "engine": "libaio", "runtime_s": 1.5, "ramp_s": 0.0, "direct": True,
    }  # fmt: skip
    argv = fio.command(parameters, "/dev/sdb")
    assert {"--thread=1", "--filename=/dev/sdb", "--bs=4096", "--runtime=1500ms"} <= set(argv)


def test_iperf3_reports_what_arrived() -> None:
    metrics, _ = iperf3.parse(recorded("iperf3-client.json"))
    assert values(metrics) == {"throughput": pytest.approx(5.805935), "retransmits": 0}


def test_iperf3_cut_short_reports_what_was_sent() -> None:
    text = recorded("iperf3-interrupted.json")
    assert values(iperf3.parse(text, is_partial=True)[0])["throughput"] == pytest.approx(6.374127)
    with pytest.raises(Fault, match="interrupt"):
        iperf3.parse(text)


def test_iperf3_passes_on_what_is_wrong() -> None:
    with pytest.raises(Fault, match="Connection refused"):
        iperf3.parse(recorded("iperf3-refused.json"))


def test_sockperf_reports_full_round_trips() -> None:
    figures = values(sockperf.parse(recorded("sockperf-ping-pong.txt")))
    assert figures["rtt_mean"] == 245.115
    assert figures["rtt_p50"] == 225.451
    assert figures["rtt_p99_99"] == 2154.466
    assert figures["round_trips_per_s"] == pytest.approx(6305 / 1.549)
    assert values(sockperf.parse(recorded("sockperf-under-load.txt")))["rtt_max"] == 529.635


def test_sockperf_without_an_answer_is_an_error_despite_its_status_0() -> None:
    with pytest.raises(Fault) as caught:
        sockperf.parse(recorded("sockperf-no-server.txt"))
    assert caught.value.kind == "no-answer"


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("perftest-write-bw.txt", {"bandwidth": 134.46, "message_rate": 0.002151}),
        (
            "perftest-write-bw-iterations.txt",
            {"bandwidth_peak": 151.70, "bandwidth": 146.83, "message_rate": 0.002349},
        ),
        ("perftest-write-lat.txt", {"latency_mean": 13.02, "transactions_per_s": 38407.16}),
        (
            "perftest-write-lat-iterations.txt",
            {
                "latency_min": 11.06,
                "latency_max": 180.25,
                "latency_p50": 11.40,
                "latency_mean": 12.67,
                "latency_stddev": 9.99,
                "latency_p99": 38.86,
                "latency_p99_9": 180.25,
            },
        ),
    ],
)
def test_perftest_tables_are_read_by_their_headings(name: str, figures: dict[str, float]) -> None:
    assert values(perftest.parse(recorded(name))) == figures


PARSERS: list[tuple[str, Callable[[str], object]]] = [
    ("fio-randwrite.json", fio.parse),
    ("iperf3-client.json", iperf3.parse),
    ("sockperf-ping-pong.txt", sockperf.parse),
    ("perftest-write-lat-iterations.txt", perftest.parse),
]


@pytest.mark.parametrize(("name", "parse"), PARSERS, ids=[name for name, _ in PARSERS])
@given(data=st.data())
def test_a_damaged_report_is_an_error_or_a_report(
    name: str, parse: Callable[[str], object], data: st.DataObject
) -> None:
    """Cut off anywhere, or with a piece replaced by anything."""
    text = recorded(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    middle = data.draw(st.sampled_from(["", "0", "null", "[]", "{}", "-", "x", "\0"]))
    damaged = data.draw(st.sampled_from([text[:start], text[:start] + middle + text[end:]]))
    try:
        parse(damaged)
    except Fault as fault:
        assert fault.kind in ("bad-output", "no-answer", "tool-failed")


def test_percentiles_truncate_the_index_as_secnetperf_does() -> None:
    ordered = list(range(1, 101))
    assert percentiles.percentile(ordered, 0.5) == 51
    assert percentiles.percentile(ordered, 0.99) == 100
    assert percentiles.percentile([7], 0.999999) == 7


@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=200))
def test_standard_error_divides_by_n_minus_1(samples: list[int]) -> None:
    expected = statistics.stdev(samples) / math.sqrt(len(samples))
    assert percentiles.standard_error(samples) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.fixture
def gids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A port as rxe presents it: GID 0 is link-local IPv6, and there are two IPv4 addresses."""
    port = tmp_path / "class/infiniband/rxe0/ports/1"
    table = [
        ("fe80:0000:0000:0000:5054:00ff:fe00:0002", "RoCE v2"),
        ("0000:0000:0000:0000:0000:ffff:0a09:0001", "IB/RoCE v1"),
        ("0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v2"),
        ("0000:0000:0000:0000:0000:0000:0000:0000", ""),
        ("0000:0000:0000:0000:0000:ffff:0a09:0002", "RoCE v2"),
    ]
    for index, (gid, kind) in enumerate(table):
        for name, text in (("gids", gid), ("gid_attrs/types", kind), ("gid_attrs/ndevs", "lan0")):
            (port / name).mkdir(parents=True, exist_ok=True)
            (port / name / str(index)).write_text(text + "\n")
    monkeypatch.setattr(rdma, "SYS", str(tmp_path))
    return port


def test_the_gid_is_picked_by_type_and_address(gids: Path) -> None:
    assert rdma.roce_v2_gid("rxe0", "10.9.0.1")["index"] == 2
    assert rdma.roce_v2_gid("rxe0", "10.9.0.2")["index"] == 4


def test_an_ambiguous_or_missing_gid_is_refused(gids: Path) -> None:
    for address, words in (("", "2 RoCE v2 GIDs"), ("10.9.0.9", "0 RoCE v2 GIDs for 10.9.0.9")):
        with pytest.raises(Fault, match=words) as caught:
            rdma.roce_v2_gid("rxe0", address)
        assert caught.value.field == "parameters.gid_address"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A blank SCSI disk of serial data0, as /sys and /dev show it."""
    block = tmp_path / "sys/block/sdb"
    for directory in ("device", "holders"):
        (block / directory).mkdir(parents=True)
    (block / "device/vpd_pg80").write_bytes(b"\x00\x80\x00\x05data0")
    (block / "dev").write_text("8:16\n")
    for name in ("dev", "proc/self"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dev/sdb").write_bytes(bytes(1 << 20))
    (tmp_path / "proc/self/mountinfo").write_text("1 0 8:0 / / rw - ext4 /dev/sda rw\n")
    for name in ("sys", "dev", "proc"):
        monkeypatch.setattr(disks, name.upper(), str(tmp_path / name))
    return tmp_path


def test_a_blank_disk_is_found_by_its_serial(disk: Path) -> None:
    assert disks.claim("data0") == str(disk / "dev/sdb")


def test_an_unknown_serial_is_refused_with_those_there_are(disk: Path) -> None:
    with pytest.raises(Fault, match="serials: data0"):
        disks.claim("data1")


def obstruct_by_mount(root: Path) -> None:
    (root / "proc/self/mountinfo").write_text("1 0 8:16 / / rw - ext4 /dev/sdb rw\n")


def obstruct_by_partition(root: Path) -> None:
    (root / "sys/block/sdb/sdb1").mkdir()
    (root / "sys/block/sdb/sdb1/partition").write_text("1\n")


def obstruct_by_holder(root: Path) -> None:
    (root / "sys/block/sdb/holders/dm-0").touch()


def obstruct_by_file_system(root: Path) -> None:
    with (root / "dev/sdb").open("r+b") as file:
        file.seek(1024 + 56)
        file.write(b"\x53\xef")  # ext's magic number, without much else of a superblock
        file.seek(1024 + 76)
        file.write((1).to_bytes(4, "little"))


def obstruct_by_partition_table(root: Path) -> None:
    with (root / "dev/sdb").open("r+b") as file:
        file.seek(446)
        file.write(bytes([0x80, 0, 2, 0, 0x83, 0, 3, 0, 1, 0, 0, 0, 64, 0, 0, 0]))
        file.seek(510)
        file.write(b"\x55\xaa")


def obstruct_by_namesake(root: Path) -> None:
    device = root / "sys/block/sdc/device"
    device.mkdir(parents=True)
    (device / "vpd_pg80").write_bytes(b"\x00\x80\x00\x05data0")


@pytest.mark.parametrize(
    ("obstruct", "words"),
    [
        (obstruct_by_mount, "mounted"),
        (obstruct_by_partition, "partitions"),
        (obstruct_by_holder, "another device is built on it"),
        (obstruct_by_file_system, "carries ext"),
        (obstruct_by_partition_table, "carries a dos partition table"),
        (obstruct_by_namesake, "sdb and sdc share this serial"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_disk_that_may_be_in_use_is_refused(
    disk: Path, obstruct: Callable[[Path], None], words: str
) -> None:
    obstruct(disk)
    with pytest.raises(Fault, match=words) as caught:
        disks.claim("data0")
    assert (caught.value.kind, caught.value.field) == ("refused", "parameters.disk")
