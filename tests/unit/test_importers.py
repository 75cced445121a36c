"""Results of other tools: read right, or refused with the file and the place in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from datapath_agent.mechanisms.udp.figures import secnetperf_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.cli import run
from lab.errors import InputError
from lab.guest.agent_client import Harness, MechanismRun, Metric, Result
from lab.results.importers import fio
from lab.results.importers.formats import FORMATS, read_file, read_files
from lab.results.importers.source import Reading, Source

DATA = Path(__file__).parents[1] / "data"
IMPORTS = DATA / "imports"
RECORDED = DATA / "agent"
REFERENCE = DATA / "reference"
SAMPLES = {
    "diskspd.xml": "diskspd",
    "fio-two-jobs.json": "fio",
    "gobench.txt": "gobench",
    "iperf3-udp.json": "iperf3",
    "perftest-bw.json": "perftest",
    "perftest-lat.json": "perftest",
    "secnetperf-later.txt": "secnetperf",
    "secnetperf-program.txt": "secnetperf",
    "secnetperf-published.txt": "secnetperf",
    "sockperf-full-log.csv": "sockperf",
    "sockperf-latency.txt": "sockperf",
}


def values(reading: Reading, *labels: str) -> dict[str, tuple[float, ...]]:
    return {each.metric: each.values for each in reading.series if each.labels == labels}


def only(reading: Reading, *labels: str) -> dict[str, float]:
    return {name: found for name, (found,) in values(reading, *labels).items()}


def test_every_sample_is_tried() -> None:
    assert sorted(SAMPLES) == sorted(path.name for path in IMPORTS.iterdir())


@pytest.mark.parametrize(("name", "format"), SAMPLES.items())
def test_the_format_is_found_out(name: str, format: str) -> None:
    found = read_file(IMPORTS / name)
    assert found.series
    assert found == read_file(IMPORTS / name, format)


def test_published_lines_are_runs_below_headings() -> None:
    found = read_file(IMPORTS / "secnetperf-published.txt")
    assert {each.labels for each in found.series} == {
        ("Main",),
        ("Latest",),
        ("Main-2",),
        ("Latest-2",),
    }
    assert values(found, "Main")["rps"] == (5770, 4493, 7223, 4456, 4483)
    assert values(found, "Latest-2")["latency_p99_99"] == (2767, 1927, 2109, 2781, 2660)
    assert values(found, "Latest")["latency_standard_error"][3] == 1.41982
    assert {each.ids for each in found.series} == {("1", "2", "3", "4", "5")}
    better = {each.metric: each.better for each in found.series}
    assert better["rps"] == "higher" and better["latency_min"] == "lower"


def test_the_programs_own_line_says_the_same() -> None:
    program = only(read_file(IMPORTS / "secnetperf-program.txt"))
    published = values(read_file(IMPORTS / "secnetperf-published.txt"), "Main")
    assert program == {name: found[0] for name, found in published.items()}


def test_later_versions_have_no_standard_error() -> None:
    found = only(read_file(IMPORTS / "secnetperf-later.txt"))
    assert (found["rps"], found["latency_min"], found["latency_max"]) == (11216, 63, 7311)
    assert "latency_standard_error" not in found


def test_the_agents_own_lines_are_read(tmp_path: Path) -> None:
    first, second = secnetperf_lines(1234, [100, 200, 300])
    for line in (first, second):
        (tmp_path / "out.txt").write_text(line + "\n")
        found = only(read_file(tmp_path / "out.txt"))
        assert (found["rps"], found["latency_p50"], found["latency_max"]) == (1234, 200, 300)


def test_outputs_one_after_another_are_runs_of_one_thing(tmp_path: Path) -> None:
    once = (IMPORTS / "secnetperf-later.txt").read_text()
    (tmp_path / "twice.txt").write_text(once + once)
    (rps, *_) = read_file(tmp_path / "twice.txt").series
    assert rps.values == (11216, 11216)
    assert rps.ids == ("1", "2")


def test_fio_jobs_of_one_name_are_one_load() -> None:
    reading = read_file(IMPORTS / "fio-two-jobs.json")
    found = only(reading, "mixed")
    assert found["read_iops"] == 40_000
    assert found["read_throughput"] == pytest.approx(156.25)
    assert found["read_latency_mean"] == 175
    assert found["read_latency_p50"] == pytest.approx(200.704)
    assert found["read_latency_max"] == 1000
    assert not any(name.startswith("write") for name in found)
    assert reading.histograms["mixed read_latency_ns"] == (
        (50432, 10_000),
        (100352, 120_000),
        (200704, 259_900),
        (897024, 10_100),
    )


def test_several_fio_jobs_without_bins_have_no_percentiles(tmp_path: Path) -> None:
    text = (IMPORTS / "fio-two-jobs.json").read_text().replace('"bins"', '"no bins"')
    (tmp_path / "plain.json").write_text(text)
    found = only(read_file(tmp_path / "plain.json"), "mixed")
    assert "read_latency_mean" in found and "read_latency_p50" not in found


def test_bins_of_some_jobs_are_not_taken_for_those_of_all(tmp_path: Path) -> None:
    text = (IMPORTS / "fio-two-jobs.json").read_text().replace('"bins"', '"no bins"', 1)
    (tmp_path / "half.json").write_text(text)
    reading = read_file(tmp_path / "half.json")
    assert not reading.histograms
    assert "read_latency_p50" not in only(reading, "mixed")


def test_one_fio_job_reports_its_own_percentiles() -> None:
    found = only(read_file(RECORDED / "fio-randwrite.json"), "job")
    assert found["write_iops"] == 10952.023988
    assert found["write_latency_p99"] == 6455.296


def test_a_fio_job_that_failed_is_refused() -> None:
    with pytest.raises(InputError, match=r"fio-failed.json: jobs\[0\] ended with error 22"):
        read_file(RECORDED / "fio-failed.json")


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50)), min_size=1, max_size=20))
def test_a_histograms_percentiles_are_those_of_its_samples(pairs: list[tuple[int, int]]) -> None:
    histogram = tuple(sorted({float(value): count for value, count in pairs}.items()))
    samples = sorted(value for value, count in histogram for _ in range(count))
    for quantile in (0.5, 0.9, 0.99, 1.0):
        found = fio.percentile(histogram, quantile)
        assert sum(sample <= found for sample in samples) >= quantile * len(samples)
        assert sum(sample < found for sample in samples) < quantile * len(samples)


def test_iperf3_over_tcp() -> None:
    reading = read_file(RECORDED / "iperf3-client.json")
    assert only(reading, "tcp", "streams=1") == {
        "throughput": pytest.approx(5.8059, abs=1e-4),
        "retransmits": 0,
    }


def test_iperf3_in_both_directions(tmp_path: Path) -> None:
    document = json.loads((RECORDED / "iperf3-client.json").read_text())
    document["end"]["sum_received_bidir_reverse"] = {"bits_per_second": 2e9}
    (tmp_path / "both.json").write_text(json.dumps(document))
    assert only(read_file(tmp_path / "both.json"), "tcp", "streams=1")["throughput_back"] == 2


def test_iperf3_over_udp() -> None:
    found = only(read_file(IMPORTS / "iperf3-udp.json"), "udp", "streams=1", "reverse")
    assert found == {"throughput": 0.9999440005, "jitter": 12.3, "lost": 0.00695}


def test_an_iperf3_that_failed_is_refused_in_its_own_words() -> None:
    with pytest.raises(InputError, match="unable to connect"):
        read_file(RECORDED / "iperf3-refused.json", "iperf3")


def test_sockperf_tells_round_trips_from_halves() -> None:
    halves = only(read_file(IMPORTS / "sockperf-latency.txt"))
    assert halves["latency_mean"] == 11.982
    assert halves["latency_p99_999"] == 311.020
    assert halves["latency_min"] == 9.701
    assert halves["round_trips_per_s"] == pytest.approx(41_600)
    assert only(read_file(RECORDED / "sockperf-ping-pong.txt"))["rtt_p50"] == 225.451


def test_a_sockperf_without_answers_is_refused() -> None:
    with pytest.raises(InputError, match="measured nothing"):
        read_file(RECORDED / "sockperf-no-server.txt")


def test_sockperfs_full_log_is_one_run() -> None:
    found = only(read_file(IMPORTS / "sockperf-full-log.csv"))
    assert found["rtt_mean"] == 25
    assert (found["rtt_min"], found["rtt_p50"], found["rtt_max"]) == (10, 30, 40)


def test_perftest_json_with_and_without_quotes() -> None:
    # A peak of 0 was not measured.
    assert only(read_file(IMPORTS / "perftest-bw.json"), "bytes=65536") == {
        "bandwidth": 1030.25,
        "message_rate": 0.016484,
    }
    latency = only(read_file(IMPORTS / "perftest-lat.json"), "bytes=2")
    assert (latency["latency_p50"], latency["latency_p99_9"]) == (1.01, 4.12)


def test_perftests_table(tmp_path: Path) -> None:
    text = (RECORDED / "perftest-write-lat.txt").read_text()
    (tmp_path / "sizes.txt").write_text(text.replace(" 2   ", " 4  76824  26.04  19203.0\n 2   "))
    found = read_file(tmp_path / "sizes.txt")
    assert only(found, "bytes=2")["latency_mean"] == 13.02
    assert only(found, "bytes=4")["latency_mean"] == 26.04


def test_every_size_of_perftests_json_is_read(tmp_path: Path) -> None:
    text = (IMPORTS / "perftest-bw.json").read_text()
    results = text[text.index("results") : text.rindex("}")]
    more = results.replace("65536", "128").replace("1030.25", "90.5")
    (tmp_path / "all.json").write_text(text.replace(results, f"{results.rstrip()},\n{more}"))
    found = read_file(tmp_path / "all.json")
    assert only(found, "bytes=65536")["bandwidth"] == 1030.25
    assert only(found, "bytes=128")["bandwidth"] == 90.5


def test_diskspd_sums_threads_over_the_time_span() -> None:
    found = only(read_file(IMPORTS / "diskspd.xml"))
    assert found["read_iops"] == 270_000
    assert found["read_throughput"] == pytest.approx(1054.6875)
    assert found["read_latency_mean"] == 1850
    assert found["read_latency_p99_9"] == 5500
    assert found["cpu"] == 40.55
    assert not any(name.startswith("write") for name in found)


def test_diskspds_output_as_powershell_redirects_it(tmp_path: Path) -> None:
    (tmp_path / "out.xml").write_text((IMPORTS / "diskspd.xml").read_text(), encoding="utf-16")
    assert read_file(tmp_path / "out.xml") == read_file(IMPORTS / "diskspd.xml")


def test_an_interrupted_diskspd_is_refused(tmp_path: Path) -> None:
    text = "<Results><TimeSpan><Error>The test was interrupted</Error></TimeSpan></Results>"
    (tmp_path / "out.xml").write_text(text)
    with pytest.raises(InputError, match="measured nothing: The test was interrupted"):
        read_file(tmp_path / "out.xml")


def test_xml_may_not_define_entities(tmp_path: Path) -> None:
    (tmp_path / "out.xml").write_text('<!DOCTYPE r [<!ENTITY a "a">]><Results>&a;</Results>')
    with pytest.raises(InputError, match="DOCTYPE"):
        read_file(tmp_path / "out.xml", "diskspd")


def test_go_benchmarks_are_series_by_name_and_unit() -> None:
    reading = read_file(IMPORTS / "gobench.txt")
    assert values(reading, "Send/inline-8")["ns/op"] == (2301, 2288)
    better = {each.metric: each.better for each in reading.series}
    assert better == {"ns/op": "lower", "MB/s": "higher", "B/op": "lower", "allocs/op": "lower"}


@pytest.mark.parametrize("path", sorted(REFERENCE.iterdir()), ids=lambda path: path.name)
def test_the_reference_tables_are_read(path: Path) -> None:
    assert read_file(path) == read_file(path, "table")
    assert read_file(path).series


def test_a_tables_columns_are_figures_or_labels(tmp_path: Path) -> None:
    text = "disk,run,kiops,latency_us,note\nnvme,a,270,1850,cold\nnvme,b,,1900,\nsata,a,90,2,\n"
    (tmp_path / "t.csv").write_text(text)
    (kiops, latency, *_) = read_file(tmp_path / "t.csv").series
    assert (kiops.unit, kiops.better, kiops.labels) == ("kIOPS", "higher", ("disk=nvme",))
    assert (kiops.values, kiops.ids) == ((270,), ("a",))
    assert (latency.values, latency.ids) == ((1850, 1900), ("a", "b"))


def test_files_of_a_directory_are_runs_named_after_them(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes((RECORDED / "iperf3-client.json").read_bytes())
    (throughput, _) = read_files([tmp_path]).series
    assert throughput.ids == ("a.json", "b.json")
    assert len(throughput.boots) == 2


@pytest.mark.parametrize(
    "name",
    [
        "fio-two-jobs.json",
        "iperf3-udp.json",
        "sockperf-full-log.csv",
        "sockperf-latency.txt",
        "diskspd.xml",
    ],
)
def test_a_second_run_in_a_file_is_not_passed_over(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text((IMPORTS / name).read_text() * 2)
    with pytest.raises(InputError, match=r"found (another|several)|junk after document"):
        read_file(tmp_path / name)


def test_messages_around_a_report_do_not_matter(tmp_path: Path) -> None:
    text = (IMPORTS / "fio-two-jobs.json").read_text()
    (tmp_path / "out.json").write_text(f"fio: some warning\n{text}\nDisk stats: none\n")
    assert read_file(tmp_path / "out.json") == read_file(IMPORTS / "fio-two-jobs.json")


def test_a_fault_below_a_message_has_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text('fio: a warning\n{\n "fio version": 3,\n oops\n}\n')
    with pytest.raises(InputError, match=r"out\.json:4:2: expected fio's JSON"):
        read_file(tmp_path / "out.json")


def lab_run(partial: bool = False) -> str:
    result = Result(
        workload="udp",
        metrics=(Metric("rps", "1/s", "higher", 1234.0),),
        samples={},
        raw={"fio version": "not of a fio run"},
        command="",
        partial=partial,
        mechanism=MechanismRun(
            "udp", "latest", {}, {}, {}, "", Harness(1, 0, 1, ""), {}, ("Result: 1 RPS",)
        ),
    )
    return json.dumps(
        run.as_document(run.Place("mine", "client", "server", "tcg"), {"": [result, result]})
    )


def test_what_lab_run_keeps_is_read(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(lab_run())
    (rps,) = read_file(tmp_path / "out.json").series
    assert (rps.labels, rps.values, rps.ids) == (("udp", "latest", "tcg"), (1234, 1234), ("1", "2"))


def test_a_lab_run_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(lab_run(partial=True))
    with pytest.raises(InputError, match=r"runs\[0\] was cut short"):
        read_file(tmp_path / "out.json")


def test_several_tools_in_a_directory_are_kept_apart(tmp_path: Path) -> None:
    for name in ("secnetperf-later.txt", "sockperf-latency.txt"):
        (tmp_path / name).write_bytes((IMPORTS / name).read_bytes())
    found = read_files([tmp_path])
    assert only(found, "secnetperf")["latency_min"] == 63
    assert only(found, "sockperf")["latency_min"] == 9.701


BROKEN = [
    ("secnetperf-published.txt", lambda t: t[:-150], r":\d+: expected a whole line of secnetperf"),
    ("secnetperf-program.txt", lambda t: t.replace("171.0", "many"), r":3: 50th: .*'many"),
    ("fio-two-jobs.json", lambda t: t[:700], r":\d+:\d+: expected fio's JSON"),
    ("fio-two-jobs.json", lambda t: t.replace('"iops" :', '"x" :'), r"jobs\[0\].read.iops"),
    ("fio-two-jobs.json", lambda t: t.replace("10000.0", '"?"'), r"expected a number, found '\?'"),
    ("fio-two-jobs.json", lambda t: t.replace("10000.0", "NaN"), r"expected a number, found 'nan'"),
    (
        "fio-two-jobs.json",
        lambda t: t.replace(": 9900,", ": -9,"),
        r"bins.200704: expected a count",
    ),
    ("iperf3-udp.json", lambda t: t[:-20], r":\d+:\d+: expected iperf3's JSON"),
    ("iperf3-udp.json", lambda t: t.replace('"end":\t{\n\t\t"streams"', '"e":{"s"'), "`end`"),
    ("sockperf-latency.txt", lambda t: t[:-60], r":\d+: expected <MIN>"),
    ("sockperf-full-log.csv", lambda t: t[:-31], "a line of dashes"),
    ("perftest-bw.json", lambda t: t[:-3], r":\d+: expected a `}` for every"),
    ("perftest-bw.json", lambda t: t.replace("1030.25", "fast"), r":23: BW_average: .*'fast'"),
    ("diskspd.xml", lambda t: t[:-12], r":\d+:\d+: expected DISKSPD's XML"),
    ("diskspd.xml", lambda t: t.replace("ReadCount", "RdCount"), "expected <ReadCount>"),
    ("gobench.txt", lambda t: t[:145], r":5: expected pairs of value and unit"),
    ("gobench.txt", lambda t: t.replace("2301", "-"), r":5: ns/op: expected a number"),
]


@pytest.mark.parametrize(("name", "damage", "told"), BROKEN)
def test_damage_is_told_with_its_place(
    name: str, damage: Callable[[str], str], told: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(damage((IMPORTS / name).read_text()))
    with pytest.raises(InputError, match=told) as raised:
        read_file(path)
    assert raised.value.where and raised.value.where.startswith(str(path))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "an empty file"),
        (b"dear diary", "expected one of: .*fio's JSON"),
        (b"\xff\xfa\x00\x01", "no text"),
        (b"run,rps\n1\n", ":2: expected 2 columns, found 1"),
        (b"run,rps\n1,fast\n", ":2: rps: expected a number"),
        (b'run,rps\n1,"2', ":2: expected CSV"),
        (b'{"format": "lab-import", "series": [{"runs": []}]}', r"series\[0\]: expected runs"),
        (b"rps,rps\n1,2\n", ":1: expected every column"),
    ],
)
def test_a_wrong_file_is_refused(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_bytes(data)
    with pytest.raises(InputError, match=told):
        read_file(tmp_path / "wrong")


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_of_another_format_is_refused(format: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("dear diary\n{}\n")
    try:
        assert not read_file(tmp_path / "wrong", format).series
    except InputError as error:
        assert error.where


def test_a_missing_file_and_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_file(tmp_path / "none")
    with pytest.raises(InputError, match="--format xls: it is one of"):
        read_file(IMPORTS / "diskspd.xml", "xls")


@pytest.mark.parametrize(("name", "format"), SAMPLES.items())
def test_no_prefix_of_a_file_gives_anything_but_figures_or_a_refusal(
    name: str, format: str
) -> None:
    text = (IMPORTS / name).read_text()

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(st.integers(0, len(text)))
    def cut(length: int) -> None:
        refused_or_read(format, text[:length])

    cut()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 10**6), st.text(max_size=5))
def test_nor_does_any_damage_within(name: str, at: int, inserted: str) -> None:
    text = (IMPORTS / name).read_text()
    at %= len(text)
    refused_or_read(SAMPLES[name], text[:at] + inserted + text[at + 3 :])


def refused_or_read(format: str, text: str) -> None:
    try:
        FORMATS[format].read(Source(Path("sample"), text))
    except InputError as error:
        assert error.where and error.where.startswith("sample")
