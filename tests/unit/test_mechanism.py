"""What mechanisms declare, each one that there is; and how what is given is taken apart."""

from __future__ import annotations

from typing import Any

import pytest
from datapath_agent import mechanisms
from datapath_agent.mechanism import (
    FIDELITIES,
    Mechanism,
    measure_harness,
    mechanism_result,
    split,
    workloads,
)
from datapath_agent.parameters import PORT_OF_PEER, REQUIRED, Parameter
from datapath_agent.protocol import Fault

from lab.errors import InputError
from lab.guest import catalogue

WAY = Parameter("way", str, "new", "which way", choices=("old", "new"))
LEAD = Parameter("lead", int, 8, "how far ahead", 1, 64)
SIZE = Parameter("size_bytes", int, REQUIRED, "bytes an operation", 1, 1024)


def refuse_old_and_far(policy: dict[str, Any], parameters: dict[str, Any]) -> None:
    if policy["way"] == "old" and policy["lead"] > 32:
        raise Fault("inexpressible", "the old way is not that far ahead", field="parameters.lead")


MADE_UP = Mechanism(
    "a made-up one",
    "nobody/nothing #1",
    (WAY, LEAD),
    (SIZE,),
    {"before": {"way": "old", "lead": 4}, "after": {"way": "new"}},
    refuse_old_and_far,
    lambda run, policy, parameters: {},
)


def test_a_preset_is_completed_by_defaults_and_overruled_by_what_is_given() -> None:
    given = {"preset": "before", "size_bytes": 5, "lead": 2}
    assert split(MADE_UP, MADE_UP.parameters, given) == {
        "preset": "before",
        "policy": {"way": "old", "lead": 2},
        "parameters": {"size_bytes": 5},
    }
    assert split(MADE_UP, MADE_UP.parameters, {"preset": "after", "size_bytes": 5})["policy"] == {
        "way": "new",
        "lead": 8,
    }


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"preset": "never", "size_bytes": 1}, "parameters.preset"),
        ({"preset": ["before"], "size_bytes": 1}, "parameters.preset"),
        ({"way": "sideways", "size_bytes": 1}, "parameters.way"),
        ({"size_bytes": 0}, "parameters.size_bytes"),
        ({}, "parameters.size_bytes"),
        ({"size_bytes": 1, "speed": 9}, "parameters.speed"),
        ([], "parameters"),
    ],
)
def test_what_is_wrong_is_named(given: Any, field: str) -> None:
    with pytest.raises(Fault) as caught:
        split(MADE_UP, MADE_UP.parameters, given)
    assert (caught.value.kind, caught.value.field) == ("bad-parameter", field)


def test_a_policy_that_cannot_show_the_mechanism_is_refused_before_it_runs() -> None:
    prepare = workloads("made-up", MADE_UP)["made-up"].prepare
    assert prepare({"way": "old", "size_bytes": 1})["policy"]["way"] == "old"
    with pytest.raises(Fault) as caught:
        prepare({"way": "old", "lead": 64, "size_bytes": 1})
    assert caught.value.kind == "inexpressible"


def test_what_was_measured_before_a_fault_says_what_it_was_measured_with() -> None:
    def lose_the_peer(run: Any, policy: Any, parameters: Any) -> dict[str, Any]:
        fault = Fault("peer-gone", "it is gone")
        fault.partial = {"metrics": []}
        raise fault

    workload = workloads("made-up", MADE_UP._replace(run=lose_the_peer))["made-up"]
    with pytest.raises(Fault) as caught:
        workload.run(None, workload.prepare({"preset": "before", "size_bytes": 5}))
    assert caught.value.partial
    assert caught.value.partial["mechanism"] == "made-up"
    assert caught.value.partial["policy"] == {"way": "old", "lead": 4}


def test_the_harness_cost_is_the_mean_of_its_null_runs_with_their_spread() -> None:
    runs = iter([(1000, 0.010), (1000, 0.014), (500, 0.006)])
    harness = measure_harness("turns", lambda: next(runs))
    assert harness.cost_us == pytest.approx(12)
    assert harness.spread_us == pytest.approx(4)
    assert harness.runs == 3
    with pytest.raises(Fault, match="no operation"):
        measure_harness("turns", lambda: (0, 1.0))


def test_a_result_needs_one_of_the_known_fidelities() -> None:
    with pytest.raises(ValueError, match="fidelity"):
        mechanism_result(
            [],
            counters={},
            fidelity="real",
            layer="",
            harness=measure_harness("x", lambda: (1, 1.0)),
        )
    assert FIDELITIES == ("native", "emulated", "model")


# Every mechanism that there is.


@pytest.fixture(params=mechanisms.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_mechanism_is_well_declared(name: str) -> None:
    mechanism = mechanisms.find(name)
    assert mechanism
    ends = (mechanism.parameters, mechanism.server_parameters)
    for parameters in ends:
        each = [axis.name for axis in (*mechanism.policies, *parameters)]
        assert len(set(each)) == len(each), "a name is used twice"
        assert "preset" not in each
    assert mechanism.presets, "a published change has a before and an after"
    for preset in mechanism.presets.values():
        assert preset.keys() <= {axis.name for axis in mechanism.policies}
    assert {"op", "null_s"} <= {each.name for each in mechanism.parameters}
    for axis in mechanism.policies:
        assert axis.choices or axis.minimum is not None, f"{axis.name} takes anything"
    if mechanism.serve:
        assert PORT_OF_PEER in mechanism.parameters
        assert "address" in {each.name for each in mechanism.server_parameters}


def test_every_preset_is_one_that_can_run(name: str) -> None:
    mechanism = mechanisms.find(name)
    assert mechanism
    required = {
        each.name: {str: "x", int: 1}[each.kind]
        for each in mechanism.parameters
        if each.default is REQUIRED
    }
    for preset in mechanism.presets:
        checked = workloads(name, mechanism)[name].prepare(
            {"preset": preset, "op": "null", **required}
        )
        assert mechanism.presets[preset].items() <= checked["policy"].items()


def test_an_unknown_policy_is_refused_on_the_host(name: str) -> None:
    with pytest.raises(InputError, match="unknown; there are"):
        catalogue.find(name).check({"polciy": "x"})
    mechanism = mechanisms.find(name)
    assert mechanism
    axis = next(each for each in mechanism.policies if each.choices)
    with pytest.raises(InputError, match=f"{axis.name}: "):
        catalogue.find(name).check({axis.name: "no such value" if axis.kind is str else -1})
