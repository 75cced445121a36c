"""Records and leases: who may have a lab, and when it may be reaped."""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lab.deadline import Deadline
from lab.errors import InputError, LabError
from lab.host.processes import ProcessIdentity, own_identity
from lab.record import RECORD, Lease, Record, claim, forget, load, own, records
from lab.running import find


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_STATE_DIR", str(tmp_path))
    return tmp_path


def made(name: str, life_s: float = 60) -> Record:
    return claim(name, "name: t\n", "/t.yaml", Deadline(5), bound=False, life_s=life_s)


def test_a_record_reads_back_as_it_was_written() -> None:
    record = replace(
        made("one"),
        domains=("a", "b"),
        taps=("tap",),
        images={"g": "digest"},
        phases={"g": {"kernel": 1.5}},
    )
    record.save()
    assert load("one") == record
    assert records() == [record]


def test_a_name_is_given_once() -> None:
    made("one")
    with pytest.raises(InputError, match="exists already"):
        made("one")


def _claim(state_dir: str, name: str) -> int:
    import os

    os.environ["LAB_STATE_DIR"] = state_dir
    return made(name).identity.slot


def test_labs_claimed_at_once_get_slots_of_their_own(state: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        slots = pool.starmap(_claim, [(str(state), f"lab{n}") for n in range(8)])
    assert len(set(slots)) == 8


def test_forgetting_removes_everything() -> None:
    record = made("one")
    (record.directory / "overlay").write_bytes(b"x")
    forget(record)
    assert load("one") is None
    assert not record.directory.exists()


def test_a_claim_without_a_record_is_taken_over(state: Path) -> None:
    (state / "labs/one").mkdir(parents=True)
    (state / "labs/one/rubbish").touch()
    assert not (made("one").directory / "rubbish").exists()


def test_leases_lapse_for_a_reason() -> None:
    lease = made("one").lease
    assert lease.lapsed() is None
    gone = ProcessIdentity(own_identity().pid, own_identity().start_ticks + 1)
    assert "is gone" in (replace(lease, owner=gone).lapsed() or "")
    assert "expired" in (replace(lease, expires_at=time.time() - 1).lapsed() or "")
    assert "booted" in (replace(lease, boot="another").lapsed() or "")
    assert replace(lease, owner=None).lapsed() is None


def test_a_lab_that_a_live_process_works_on_is_left_alone() -> None:
    record = made("one")
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(30,))
    other.start()
    try:
        from lab.host.processes import identify

        assert other.pid
        held = Lease(identify(other.pid), False, record.lease.boot, record.lease.expires_at)
        replace(record, lease=held).save()
        with pytest.raises(LabError, match=f"process {other.pid}"):
            own(record, Deadline(5))
    finally:
        other.kill()
        other.join()
    assert own(record, Deadline(5)).lease.owner == own_identity()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"identity": 1}', "null"])
def test_a_damaged_record_is_named(text: str) -> None:
    record = made("one")
    (record.directory / RECORD).write_text(text)
    with pytest.raises(LabError, match="not a lab's record") as caught:
        load("one")
    assert str(record.directory / RECORD) in str(caught.value)


def test_records_are_json_for_people_to_read() -> None:
    record = made("one")
    assert json.loads((record.directory / RECORD).read_text())["identity"]["name"] == "one"


def test_a_lab_that_is_not_up_says_who_works_on_it_or_that_nobody_does() -> None:
    record = made("one")
    with pytest.raises(LabError, match=f"process {own_identity().pid} is bringing lab one up"):
        find("one")
    gone = replace(own_identity(), start_ticks=0)
    replace(record, lease=replace(record.lease, owner=gone)).save()
    with pytest.raises(LabError, match=r"(?s)was killed.*lab reap"):
        find("one")
