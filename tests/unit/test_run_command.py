"""`lab run`: its settings, its table, and what it keeps of a run that failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cli import run as command
from lab.deadline import Deadline
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
    command.print_table("tcg", {"before": [before, before], "after": [cut]})
    shown = capsys.readouterr().out
    for words in (
        "before, 2 runs", "after, 1 run, 1 cut short", "rate, 1/s", "1,234.5", "hops", "3.25",
        "accelerator tcg, fidelity model", "layer: a user-space model", "Result: 1234 RPS",
    ):  # fmt: skip
        assert words in shown


def test_json_holds_every_run_in_full() -> None:
    result = ask({"event": "result", "result": TOLD})
    document = json.loads(json.dumps(command.as_document("tcg", {"before": [result]})))
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
    command.print_table("tcg", {"": [ask({"event": "result", "result": plain})]})
    shown = capsys.readouterr().out
    assert "accelerator tcg, fidelity emulated" in shown
    assert "harness" not in shown
