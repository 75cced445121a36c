"""The exhaustive model of the ring: gates of layer L1, which the published change rests on."""

from __future__ import annotations

import pytest
from datapath_agent.mechanisms import find
from datapath_agent.mechanisms.vring import model
from hypothesis import given
from hypothesis import strategies as st

INDICES = st.integers(0, 0xFFFF)


@pytest.mark.parametrize("event_idx", [True, False])
@pytest.mark.parametrize("shape", model.SHAPES)
def test_in_the_lock_no_kick_is_lost(shape: tuple[int, int], event_idx: bool) -> None:
    assert not model.lost_states(*shape, in_lock=True, event_idx=event_idx)


@pytest.mark.parametrize(("shape", "count"), [((2, 2), 2), ((3, 1), 1), ((2, 3), 4), ((2, 1), 0)])
def test_outside_the_lock_kicks_are_lost_with_event_idx(shape: tuple[int, int], count: int) -> None:
    assert len(model.lost_states(*shape, in_lock=False, event_idx=True)) == count


@pytest.mark.parametrize("shape", model.SHAPES)
def test_flags_are_immune(shape: tuple[int, int]) -> None:
    assert not model.lost_states(*shape, in_lock=False, event_idx=False)


def test_one_submitter_alone_loses_nothing() -> None:
    assert not model.lost_states(1, 4, in_lock=False, event_idx=True)


@pytest.mark.parametrize("shape", [(2, 2), (3, 1), (2, 3)])
def test_a_lost_kick_stays_lost_for_65536_submissions(shape: tuple[int, int]) -> None:
    for idx, _, avail_event, *_ in model.lost_states(*shape, in_lock=False, event_idx=True):
        lost = idx - avail_event  # 1 is the request whose kick was lost
        assert model.submissions_until_a_kick(idx, avail_event) == 65_536 - (lost - 1)


@given(event=INDICES, old=INDICES, added=st.integers(0, 300))
def test_need_event_asks_whether_the_event_is_among_what_was_added(
    event: int, old: int, added: int
) -> None:
    among = event in {(old + number) & 0xFFFF for number in range(added)}
    assert model.need_event(event, (old + added) & 0xFFFF, old) == among


def test_the_lab_prints_the_model_beside_a_run() -> None:
    mechanism = find("vring")
    assert mechanism
    text = "\n".join(mechanism.model())
    assert "event_idx, kick_prepare outside it (submitters x requests): 2x2: 2, 3x1: 1" in text
    assert "submission 65,536 after it" in text
