"""Reading rping, and finding who listens for RDMA connections."""

from __future__ import annotations

import pytest
from datapath_agent.listening import has_listener
from datapath_agent.protocol import Fault
from datapath_agent.workloads import rping
from hypothesis import given
from hypothesis import strategies as st

PINGS = "".join(f"ping data: rdma-ping-{number}: ABCDEF\n" for number in range(5))


def test_rping_s_pings_are_counted() -> None:
    assert rping.count(PINGS + "client DISCONNECT EVENT...\n", "", 5) == 5
    assert rping.count(PINGS, "", None) == 5


@pytest.mark.parametrize(
    ("stdout", "stderr", "expected", "kind"),
    [
        (PINGS, "data mismatch!\n", 5, "tool-failed"),
        (PINGS, "data mismatch!\n", None, "tool-failed"),
        (PINGS, "", 6, "bad-output"),
        ("", "", 1, "bad-output"),
    ],
)
def test_rping_that_did_not_do_it_all_is_no_success(
    stdout: str, stderr: str, expected: int | None, kind: str
) -> None:
    with pytest.raises(Fault) as caught:
        rping.count(stdout, stderr, expected)
    assert caught.value.kind == kind


@given(st.text(), st.text(), st.none() | st.integers(1, 9))
def test_anything_else_is_a_count_or_a_fault(
    stdout: str, stderr: str, expected: int | None
) -> None:
    try:
        assert rping.count(stdout, stderr, expected) >= 0
    except Fault as fault:
        assert fault.kind in ("tool-failed", "bad-output")


LISTENERS = """\
link rxe0/1 cm-idn 0 state LISTEN ps TCP pid 649 comm rping src-addr 10.64.0.1:7174 dst-addr 0.0.0.0:0
link rxe0/1 cm-idn 1 lqpn 17 qp-type RC state CONNECT ps TCP pid 650 comm rping src-addr 10.64.0.1:7175
"""  # noqa: E501


@pytest.mark.parametrize(
    ("port", "pid", "is_one"),
    [(7174, 649, True), (7174, 650, False), (174, 649, False), (7175, 650, False)],
)
def test_a_connection_manager_s_listener_is_found(port: int, pid: int, is_one: bool) -> None:
    assert has_listener(LISTENERS, port, pid) == is_one
