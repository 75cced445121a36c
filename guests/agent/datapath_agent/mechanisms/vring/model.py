"""Every interleaving of a few requests on a split ring: can a kick be lost?

Layer L1 of the claim: sequentially consistent, no time, no chance. Submitters add under the
queue's lock and then ask kick_prepare() whether the device has to be told; the device takes all
there is, says where it wants to be told again, looks once more, and sleeps until its doorbell.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    # (next step, requests left, old, new) of a submitter.
    Submitter = tuple[int, int, int, int]
    # (idx, num_added, avail_event or no_notify, doorbell, lock holder, submitters, device step,
    # last index that the device has seen)
    State = tuple[int, int, int, bool, int, tuple[Submitter, ...], int, int]

INDEX_MASK = 0xFFFF
SHAPES = ((2, 2), (3, 1), (2, 3), (2, 1))

# A submitter's steps; the device's.
_ADD, _READ, _DECIDE, _NOTIFY, _UNLOCK = range(5)
_SLEEPING, _TAKE, _ENABLE, _LOOK_AGAIN = range(4)
_NOBODY = -1


def need_event(event: int, new: int, old: int) -> bool:
    """vring_need_event() of the virtio specification: is `event` among the indices just added?"""
    return (new - event - 1) & INDEX_MASK < (new - old) & INDEX_MASK


def lost_states(submitters: int, requests: int, *, in_lock: bool, event_idx: bool) -> set[State]:
    """The distinct final states in which a request lies in the ring and nobody will ever kick."""
    start: State = (0, 0, 0, False, _NOBODY, ((_ADD, requests, 0, 0),) * submitters, _SLEEPING, 0)
    seen = {start}
    waiting = [start]
    lost = set()
    while waiting:
        state = waiting.pop()
        following = [
            *_submitters_steps(state, in_lock, event_idx),
            *_device_steps(state, event_idx),
        ]
        if not following and state[0] != state[7]:
            lost.add(state)
        for each in following:
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return lost


def _submitters_steps(state: State, in_lock: bool, event_idx: bool) -> Iterator[State]:
    idx, added, wanted, doorbell, holder, submitters, device, last = state
    for number, (step, left, old, new) in enumerate(submitters):
        now_idx, now_added, now_doorbell, now_holder = idx, added, doorbell, holder
        if step == _ADD:
            if left == 0 or holder != _NOBODY:
                continue
            now_idx, now_added = idx + 1, added + 1
            now_holder = number if in_lock else _NOBODY
            after = (_READ, left - 1, 0, 0)
        elif step == _READ:
            after = (_DECIDE, left, idx - added, idx)
        elif step == _DECIDE:
            now_added = 0
            kick = need_event(wanted, new, old) if event_idx else not wanted
            after = (_UNLOCK if in_lock else _NOTIFY if kick else _ADD, left, int(kick), 0)
        elif step == _UNLOCK:
            now_holder = _NOBODY
            after = (_NOTIFY if old else _ADD, left, 0, 0)
        else:
            now_doorbell = True
            after = (_ADD, left, 0, 0)
        others = (*submitters[:number], after, *submitters[number + 1 :])
        yield (now_idx, now_added, wanted, now_doorbell, now_holder, others, device, last)


def _device_steps(state: State, event_idx: bool) -> Iterator[State]:
    idx, added, wanted, doorbell, holder, submitters, device, last = state
    if device == _SLEEPING:
        if not doorbell:
            return
        doorbell, device, wanted = False, _TAKE, idx if event_idx else 1
    elif device == _TAKE:
        last, device = idx, _ENABLE
    elif device == _ENABLE:
        wanted, device = idx if event_idx else 0, _LOOK_AGAIN
    else:
        device = _SLEEPING if last == idx else _TAKE
    yield (idx, added, wanted, doorbell, holder, submitters, device, last)


def submissions_until_a_kick(idx: int, avail_event: int) -> int:
    """How many single requests after `idx` until one is kicked for, if the device never wakes."""
    for further in range(1, 2 * INDEX_MASK):
        if need_event(avail_event, (idx + further) & INDEX_MASK, (idx + further - 1) & INDEX_MASK):
            return further
    raise AssertionError("a window of one index comes by every index")


def lines() -> list[str]:
    """The table of all shapes, and how long a lost kick stays lost."""
    told = ["final states with a request that nobody will kick for, over all interleavings:"]
    for event_idx in (True, False):
        for in_lock in (True, False):
            counts = ", ".join(
                f"{submitters}x{requests}: "
                f"{len(lost_states(submitters, requests, in_lock=in_lock, event_idx=event_idx))}"
                for submitters, requests in SHAPES
            )
            suppress = "event_idx" if event_idx else "flags"
            where = "in the lock" if in_lock else "outside it"
            told.append(f"  {suppress}, kick_prepare {where} (submitters x requests): {counts}")
    # What every lost state has in common: the request after avail_event was not kicked for.
    further = submissions_until_a_kick(1, 0)
    told.append(
        f"after a lost kick the next natural one comes with submission {further:,} after it"
    )
    return told
