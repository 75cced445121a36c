"""vring: where does "must I kick?" sit relative to the queue's lock?

The change of virtio-win's vioscsi SendSRB (PR #1135, merged as #1150): a real split ring in
shared memory between submitter processes and a device process per HBA.
"""

from __future__ import annotations

from datapath_agent.mechanism import NULL_S, Mechanism
from datapath_agent.parameters import Parameter
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.run import Run

SECTOR_BYTES = 512
MIB = 1 << 20
MOST_SLOTS = 1 << 15
PRELIST = ("prelist_or", "prelist_overwrite")

_POLICIES = (
    Parameter(
        "kick", str, "fixed",
        "where kick_prepare is: in the lock with a pending list, its answers ORed or overwritten; "
        "outside the lock; in it; in it with the kick itself; or kick for every request",
        choices=(*PRELIST, "regressed", "fixed", "notify_in_lock", "always"),
    ),
    Parameter(
        "on_full", str, "busy", "what becomes of a request that the ring has no room for",
        choices=("busy_notify", "busy", "pending"),
    ),
    Parameter(
        "complete", str, "in_lock_linear", "how a completion finds its request",
        choices=("after_unlock", "in_lock_linear", "in_lock_map"),
    ),
    Parameter(
        "id", str, "locked", "where a request gets its id", choices=("unlocked", "locked")
    ),
    Parameter(
        "suppress", str, "event_idx", "how the device says that it needs no kick",
        choices=("event_idx", "flags"),
    ),
    Parameter(
        "queues", int, 2,
        "request queues an HBA; submitter % queues; with 1, submission is serialised by StartIo",
        1, 64,
    ),
    Parameter("hbas", int, 1, "HBAs, each a device process with a disk", choices=(1, 2, 4)),
    Parameter(
        "on_reset", str, "nothing",
        "after stall_s: complete requests that the device still has, or leave them",
        choices=("complete", "nothing"),
    ),
)  # fmt: skip

_PARAMETERS = (
    Parameter("disk", str, "", "serials of data disks, one an HBA, separated by commas"),
    Parameter(
        "pattern", str, "randread", "access pattern",
        choices=("read", "write", "randread", "randwrite"),
    ),
    Parameter("block_bytes", int, 4096, "bytes a request", SECTOR_BYTES, 16 * MIB),
    Parameter(
        "second_block_bytes", int, 0, "bytes a request of every other submitter of a queue, 0 for "
        "the same", 0, 16 * MIB,
    ),
    Parameter("outstanding", int, 32, "requests in flight a submitter", 1, 4096),
    Parameter("submitters", int, 4, "submitting processes", 1, 64),
    Parameter("ring_size", int, 256, "entries of a ring, a power of two", 2, 32768),
    Parameter("op", str, "real", "what serves a request", choices=("real", "null")),
    Parameter("region_mib", int, 64, "MiB of each disk that are used", 1, 1 << 20),
    Parameter("runtime_s", float, 2.0, "seconds to submit, unless a stall ends it", 0.1, 3600),
    Parameter("operations", int, 0, "requests after which to end, 0 for no bound", 0, 1 << 40),
    Parameter("stall_s", float, 2.0, "seconds of a stall until it is acted upon", 1.0, 600),
    Parameter("trace", bool, False, "record every step of a request, as an event trace does"),
    Parameter(
        "concurrency", str, "process", "what submitters are", choices=("process", "thread")
    ),
    NULL_S,
)  # fmt: skip

_PRE_684 = {"on_full": "pending", "complete": "after_unlock", "id": "locked"}
_PRESETS = {
    "pre2018": {"kick": "prelist_overwrite", **_PRE_684},
    "pre684": {"kick": "prelist_or", **_PRE_684},
    "regressed": {
        "kick": "regressed", "on_full": "busy_notify", "complete": "in_lock_linear",
        "id": "locked",
    },
    "fixed": {
        "kick": "fixed", "on_full": "busy", "complete": "in_lock_linear", "id": "locked",
    },
}  # fmt: skip


def block_bytes_of(submitter: int, policy: dict[str, Any], parameters: dict[str, Any]) -> int:
    """The request size of a submitter: both sizes occur on every queue that has two submitters."""
    turn = submitter // (policy["hbas"] * policy["queues"])
    second: int = parameters["second_block_bytes"]
    first: int = parameters["block_bytes"]
    return second if second and turn % 2 else first


def area_bytes(policy: dict[str, Any], parameters: dict[str, Any]) -> int:
    """What each submitter has of its disk for itself."""
    a_disk = -(-parameters["submitters"] // policy["hbas"])
    size: int = parameters["region_mib"] * MIB // a_disk
    return size // 4096 * 4096


def _check(policy: dict[str, Any], parameters: dict[str, Any]) -> None:
    def refuse(field: str, reason: str, kind: str = "inexpressible") -> Fault:
        return Fault(kind, reason, field=f"parameters.{field}")

    if parameters["concurrency"] == "thread":
        raise refuse(
            "concurrency",
            "under the GIL a thread is never interrupted between reading and clearing num_added, "
            "so threads cannot lose a kick and would prove nothing; use processes",
        )
    if (policy["kick"] in PRELIST) != (policy["on_full"] == "pending"):
        raise refuse(
            "on_full",
            "a request waits on the pending list of prelist_or and prelist_overwrite, and only "
            f"there: kick={policy['kick']} goes with "
            f"{'pending' if policy['kick'] in PRELIST else 'busy or busy_notify'}",
        )
    submitters = parameters["submitters"]
    if submitters < policy["hbas"] * policy["queues"]:
        raise refuse(
            "submitters",
            f"{submitters} submitters leave some of {policy['hbas'] * policy['queues']} queues "
            "without any, which then show nothing",
        )
    if submitters * parameters["outstanding"] > MOST_SLOTS:
        raise refuse("outstanding", f"at most {MOST_SLOTS} requests in all", "bad-parameter")
    if parameters["ring_size"] & (parameters["ring_size"] - 1):
        raise refuse("ring_size", "a split ring's size is a power of two", "bad-parameter")
    for name in ("block_bytes", "second_block_bytes"):
        if parameters[name] % SECTOR_BYTES:
            raise refuse(name, "is a multiple of 512: direct I/O", "bad-parameter")
    if parameters["op"] == "null":
        return
    serials = [serial for serial in parameters["disk"].split(",") if serial]
    if len(serials) != policy["hbas"] or len(set(serials)) != len(serials):
        raise refuse(
            "disk",
            f"needs a data disk of its own for each of hbas={policy['hbas']}, got "
            f"{','.join(serials) or 'none'}; op=null needs none",
            "bad-parameter",
        )
    largest = max(parameters["block_bytes"], parameters["second_block_bytes"])
    if area_bytes(policy, parameters) < parameters["outstanding"] * largest:
        raise refuse(
            "region_mib",
            f"the {area_bytes(policy, parameters)} bytes that each of {submitters} submitters has "
            f"to itself do not hold {parameters['outstanding']} blocks of {largest}",
            "bad-parameter",
        )


def _run(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    from datapath_agent.mechanisms.vring import measure

    return measure.measure(run, policy, parameters)


def _model() -> list[str]:
    from datapath_agent.mechanisms.vring import model

    return model.lines()


MECHANISM = Mechanism(
    summary="a split virtqueue: is kick_prepare inside or outside the queue's lock?",
    change="virtio-win/kvm-guest-drivers-windows #1135, #1150",
    policies=_POLICIES,
    parameters=_PARAMETERS,
    presets=_PRESETS,
    check=_check,
    run=_run,
    model=_model,
)
