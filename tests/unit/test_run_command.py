"""`lab run`: its settings, its table, and what it keeps of a run that failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cli import run as command
from lab.cli import run_command_line
from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import InputError
from lab.guest import catalogue
from lab.guest.agent_client import AgentClient, AgentError, Result
from lab.guest.workloads import GivenWorkload
from lab.workload import with_server

TOLD = {
    "metrics": [{"name": "rate", "unit": "1/s", "direction": "higher", "value": 1234.5}],
    "raw": None,
    "command": "",
    "partial": False,
    "clock_step_s": 0.0,
    "mechanism": "made-up",
    "preset": "before",
    "policy": {"way": "old"},
    "parameters": {"size_bytes": 5},
    "counters": {"hops": 2.0},
    "fidelity": "model",
    "layer": "a user-space model",
    "harness": {"cost_us": 3.25, "spread_us": 0.5, "runs": 3, "what": "turns of an empty loop"},
    "histograms": {},
    "lines": ["Result: 1234 RPS"],
}

PLACE = command.Place("default", "client", None, "tcg")


class Script:
    """A channel on which the agent says what was written down."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._lines = [json.dumps({"id": 1, **event}).encode() for event in events]

    def send(self, data: bytes) -> None: ...

    def readline(self, deadline: Deadline) -> bytes:
        return self._lines.pop(0) if self._lines else b""

    def stderr_tail(self) -> str:
        return ""

    def close(self) -> None: ...


def ask(*events: dict[str, Any]) -> Result:
    workload = GivenWorkload("made-up", {"preset": "before"})
    return AgentClient(Script(*events), "client").run(workload, deadline=Deadline(5))


def test_a_result_carries_all_that_makes_it_evidence() -> None:
    sample = {"event": "sample", "name": "latency_us", "values": [1, 2]}
    told = ask(sample, {"event": "result", "result": TOLD})
    assert told.mechanism
    assert told.mechanism.policy == {"way": "old"}
    assert told.mechanism.counters == {"hops": 2.0}
    assert told.mechanism.harness.cost_us == 3.25
    assert told.samples == {"latency_us": (1, 2)}


def test_the_other_ends_counters_are_beside_ones_own() -> None:
    client = ask({"event": "result", "result": TOLD})
    server = ask({"event": "result", "result": {**TOLD, "counters": {"hops": 7.0}}})
    both = with_server(client, server)
    assert both.mechanism and both.mechanism.counters == {"hops": 2.0, "server_hops": 7.0}
    assert with_server(client, None) == client


def test_what_was_measured_before_a_failure_is_kept_and_marked() -> None:
    with pytest.raises(AgentError) as caught:
        ask(
            {"event": "sample", "name": "latency_us", "values": [7]},
            {
                "event": "error",
                "kind": "peer-gone",
                "message": "the peer closed the connection",
                "result": {**TOLD, "partial": True},
            },
        )
    error = caught.value
    assert error.kind == "peer-gone"
    assert error.partial and error.partial.partial
    assert error.partial["rate"].value == 1234.5
    assert error.partial.samples == {"latency_us": (7,)}


def test_presets_stand_side_by_side_with_counters_harness_and_fidelity(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = ask({"event": "result", "result": TOLD})
    cut = ask({"event": "result", "result": {**TOLD, "preset": "after", "partial": True}})
    command.print_table(PLACE, {"before": [before, before], "after": [cut]})
    shown = capsys.readouterr().out
    for words in (
        "before, 2 runs", "after, 1 run, 1 cut short", "rate, 1/s", "1,234.5", "hops", "3.25",
        "accelerator tcg, fidelity model", "layer: a user-space model", "Result: 1234 RPS",
    ):  # fmt: skip
        assert words in shown


def test_json_holds_every_run_in_full() -> None:
    result = ask({"event": "result", "result": TOLD})
    document = json.loads(json.dumps(command.as_document(PLACE, {"before": [result]})))
    assert document["accelerator"] == "tcg"
    assert document["runs"][0]["mechanism"]["policy"] == {"way": "old"}


def test_settings_take_the_types_that_are_declared() -> None:
    # `disk` is a text, even one that YAML takes for a truth value.
    words = ["disk=no", "block_bytes=4096", "ramp_s=0.5", "direct=false"]
    assert command.parse_settings("fio", words) == {
        "disk": "no",
        "block_bytes": 4096,
        "ramp_s": 0.5,
        "direct": False,
    }


@pytest.mark.parametrize("word", ["disk", "block_bytes=[", "=5"])
def test_a_setting_that_is_none_is_named(word: str) -> None:
    with pytest.raises(InputError, match=r"NAME=VALUE|no number"):
        command.parse_settings("fio", [word])


def test_a_workload_is_known_by_one_name_for_both_ends() -> None:
    iperf3 = catalogue.find("iperf3")
    assert (iperf3.client, iperf3.server) == ("iperf3-client", "iperf3-server")
    assert iperf3.of_server({"address": "10.0.0.1", "streams": 4}) == {"address": "10.0.0.1"}
    assert catalogue.find("fio").server is None
    assert catalogue.find("perftest").fidelity == "emulated"
    with pytest.raises(InputError, match="there is nothing to run called iperf"):
        catalogue.find("iperf")
    with pytest.raises(InputError, match="pattern: is one of read, write"):
        catalogue.find("fio").check({"disk": "data0", "pattern": "sideways"})


def test_a_workload_is_shown_without_what_only_mechanisms_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = {**TOLD, "fidelity": "emulated"}
    for name in ("mechanism", "preset", "policy", "parameters", "counters", "layer", "harness"):
        del plain[name]
    command.print_table(PLACE, {"": [ask({"event": "result", "result": plain})]})
    shown = capsys.readouterr().out
    assert "accelerator tcg, fidelity emulated" in shown
    assert "harness" not in shown


Command = Callable[..., int]


@pytest.fixture
def lab_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The `lab` command on a host without any lab."""
    monkeypatch.setenv("LAB_STATE_DIR", str(tmp_path / "state"))

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["lab", *words])
        return run_command_line()

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vring", "op=null", "runtime_s=1", "runtime_s=2"], "runtime_s is given twice: 1, then 2"),
        (["vring", "op=null", "--preset", "nonesuch"], "there are pre2018, pre684, regressed"),
        (["vring", "op=null", "colour=1"], "colour: unknown"),
        (["vring", "disk=data0,data0"], "each of hbas=1, got data0,data0"),
        (["vring", "disk=data0,data0", "hbas=2"], "each of hbas=2, got data0,data0"),
        (["iperf3", "streams=0"], "streams"),
        (["vring", "op=null", "--timeout", "5"], "--timeout 5: needs a unit"),
        (["vring", "op=null", "--runs", "0"], "next: `lab run --help`"),
        (["vring", "op=null", "--out", "no/such/file"], "no/such/file: cannot write"),
    ],
)
def test_what_is_asked_wrongly_is_said_before_any_lab_is_looked_for(
    lab_command: Command, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert lab_command("run", *words) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "no lab is up" not in shown
    assert "next: " in shown or "such as" in shown


def test_what_the_lab_fills_in_itself_is_not_asked_for(
    lab_command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("iperf3", "udp"):
        assert lab_command("run", name) == 2
        assert "no lab is up" in capsys.readouterr().err


def test_the_list_has_the_names_that_run_takes_and_only_what_is_to_be_given(
    lab_command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab_command("run", "--list", "--json") == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(listed) == catalogue.names()
    for name in listed:
        catalogue.find(name)
        given = {each["name"] for each in listed[name]["parameters"]}
        assert not given & {"address", "port"}
    assert listed["vring"]["presets"]["fixed"]["kick"] == "fixed"
    (pattern,) = (each for each in listed["fio"]["parameters"] if each["name"] == "pattern")
    assert "default" not in pattern and "randread" in pattern["choices"]


def test_the_list_is_for_reading_without_json(
    lab_command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab_command("run", "--list") == 0
    shown = capsys.readouterr().out
    assert "\niperf3: " in shown and "iperf3-client" not in shown
    assert "pattern: access pattern (read, write, randread, randwrite, rw, randrw); required" in (
        shown
    )


def test_an_interrupt_is_said(
    lab_command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.running.find", interrupt)
    assert lab_command("run", "vring", "op=null") == 130
    assert capsys.readouterr().err == "lab: interrupted\n"


def test_a_run_says_where_it_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    result = ask({"event": "result", "result": TOLD})
    place = command.Place("mine", "client", "server", "kvm")
    command.print_table(place, {"": [result]})
    assert "lab mine, client to server; accelerator kvm" in capsys.readouterr().out
    document = command.as_document(place, {"": [result]})
    assert (document["lab"], document["guest"], document["peer"]) == ("mine", "client", "server")


def test_counters_that_counted_nothing_are_left_out_of_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counters = {"hops": 0.0, "stalls": 0.0, "resets": 0.0}
    before = ask({"event": "result", "result": {**TOLD, "counters": counters}})
    after = ask({"event": "result", "result": {**TOLD, "counters": {**counters, "hops": 2.0}}})
    command.print_table(PLACE, {"before": [before], "after": [after]})
    shown = capsys.readouterr().out
    assert "hops" in shown and "stalls" not in shown and "resets" not in shown
    assert "2 counters at 0 in every run left out; --json has all" in shown
    assert (
        command.as_document(PLACE, {"": [before]})["runs"][0]["mechanism"]["counters"] == counters
    )


def test_a_file_that_can_be_written_is_not_made_before_there_are_results(tmp_path: Path) -> None:
    command.check_writable("--out", tmp_path / "results.json")
    assert not (tmp_path / "results.json").exists()
    kept = tmp_path / "earlier.json"
    kept.write_text("earlier")
    command.check_writable("--out", kept)
    assert kept.read_text() == "earlier"


def test_the_table_is_shown_even_if_the_file_cannot_be_written_any_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone" / "results.json"
    with pytest.raises(InputError, match="cannot write") as caught:
        command._show(
            PLACE, {"": [ask({"event": "result", "result": TOLD})]}, out=gone, as_json=False
        )
    assert caught.value.where == str(gone)
    assert "1,234.5" in capsys.readouterr().out


def test_running_out_of_time_is_told_from_other_failures() -> None:
    with pytest.raises(AgentError) as caught:
        ask({"event": "stopped", "reason": "deadline", "result": None})
    assert command.ran_out_of_time(caught.value)
    assert command.ran_out_of_time(DeadlineExceeded("timed out waiting for the agent"))
    with pytest.raises(AgentError) as caught:
        ask({"event": "error", "kind": "peer-gone", "message": "the peer is gone"})
    assert not command.ran_out_of_time(caught.value)
