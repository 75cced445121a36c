"""struct ibv_qp_attr as ctypes sees it, and the four transitions of an RC queue pair.

A mirror of <infiniband/verbs.h> (rdma-core; the layout is part of libibverbs' ABI 1.1). A run
takes a queue pair to RTS and reads every field back before it trusts the mirror.
"""

from __future__ import annotations

import ctypes

# enum ibv_qp_state
RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
STATES = {0: "RESET", 1: "INIT", 2: "RTR", 3: "RTS", 4: "SQD", 5: "SQE", 6: "ERR"}
TRANSITIONS = ("init", "rtr", "rts", "err")

# enum ibv_qp_attr_mask
_STATE, _ACCESS_FLAGS, _PKEY_INDEX, _PORT = 1 << 0, 1 << 3, 1 << 4, 1 << 5
_AV, _PATH_MTU, _TIMEOUT, _RETRY_CNT, _RNR_RETRY = 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 11
_RQ_PSN, _MAX_QP_RD_ATOMIC, _MIN_RNR_TIMER, _SQ_PSN = 1 << 12, 1 << 13, 1 << 15, 1 << 16
_MAX_DEST_RD_ATOMIC, _DEST_QPN = 1 << 17, 1 << 20

INIT_MASK = _STATE | _PKEY_INDEX | _PORT | _ACCESS_FLAGS
RTR_MASK = (
    _STATE | _AV | _PATH_MTU | _DEST_QPN | _RQ_PSN | _MAX_DEST_RD_ATOMIC | _MIN_RNR_TIMER
)  # fmt: skip
RTS_MASK = _STATE | _TIMEOUT | _RETRY_CNT | _RNR_RETRY | _SQ_PSN | _MAX_QP_RD_ATOMIC
ERR_MASK = _STATE
QUERY_MASK = INIT_MASK | RTR_MASK | RTS_MASK

_REMOTE_WRITE = 1 << 1
_REMOTE_READ = 1 << 2


class GlobalRoute(ctypes.Structure):
    _fields_ = [
        ("dgid", ctypes.c_uint64 * 2),
        ("flow_label", ctypes.c_uint32),
        ("sgid_index", ctypes.c_uint8),
        ("hop_limit", ctypes.c_uint8),
        ("traffic_class", ctypes.c_uint8),
    ]


class AddressHandle(ctypes.Structure):
    _fields_ = [
        ("grh", GlobalRoute),
        ("dlid", ctypes.c_uint16),
        ("sl", ctypes.c_uint8),
        ("src_path_bits", ctypes.c_uint8),
        ("static_rate", ctypes.c_uint8),
        ("is_global", ctypes.c_uint8),
        ("port_num", ctypes.c_uint8),
    ]


class QpAttributes(ctypes.Structure):
    """struct ibv_qp_attr."""

    _fields_ = [
        ("qp_state", ctypes.c_uint32),
        ("cur_qp_state", ctypes.c_uint32),
        ("path_mtu", ctypes.c_uint32),
        ("path_mig_state", ctypes.c_uint32),
        ("qkey", ctypes.c_uint32),
        ("rq_psn", ctypes.c_uint32),
        ("sq_psn", ctypes.c_uint32),
        ("dest_qp_num", ctypes.c_uint32),
        ("qp_access_flags", ctypes.c_uint32),
        ("cap", ctypes.c_uint32 * 5),
        ("ah_attr", AddressHandle),
        ("alt_ah_attr", AddressHandle),
        ("pkey_index", ctypes.c_uint16),
        ("alt_pkey_index", ctypes.c_uint16),
        ("en_sqd_async_notify", ctypes.c_uint8),
        ("sq_draining", ctypes.c_uint8),
        ("max_rd_atomic", ctypes.c_uint8),
        ("max_dest_rd_atomic", ctypes.c_uint8),
        ("min_rnr_timer", ctypes.c_uint8),
        ("port_num", ctypes.c_uint8),
        ("timeout", ctypes.c_uint8),
        ("retry_cnt", ctypes.c_uint8),
        ("rnr_retry", ctypes.c_uint8),
        ("alt_port_num", ctypes.c_uint8),
        ("alt_timeout", ctypes.c_uint8),
        ("rate_limit", ctypes.c_uint32),
    ]


# struct ibv_qp_init_attr, which a query fills in: larger than it has been in any version.
QueriedInit = ctypes.c_uint8 * 256


def to_init() -> QpAttributes:
    return QpAttributes(
        qp_state=INIT, port_num=1, pkey_index=0, qp_access_flags=_REMOTE_WRITE | _REMOTE_READ
    )


def to_rtr(
    *, dest_qp_num: int, rq_psn: int, path_mtu: int, gid: bytes, gid_index: int
) -> QpAttributes:
    """Ready to receive from the queue pair `dest_qp_num` at RoCE address `gid` (16 bytes)."""
    attributes = QpAttributes(
        qp_state=RTR,
        path_mtu=path_mtu,
        dest_qp_num=dest_qp_num,
        rq_psn=rq_psn,
        max_dest_rd_atomic=1,
        min_rnr_timer=12,
    )
    address = attributes.ah_attr
    address.is_global = 1
    address.port_num = 1
    address.grh.dgid[:] = (ctypes.c_uint64 * 2).from_buffer_copy(gid)
    address.grh.sgid_index = gid_index
    address.grh.hop_limit = 64
    return attributes


def to_rts(*, sq_psn: int) -> QpAttributes:
    return QpAttributes(
        qp_state=RTS, sq_psn=sq_psn, timeout=14, retry_cnt=7, rnr_retry=6, max_rd_atomic=1
    )


def to_err() -> QpAttributes:
    return QpAttributes(qp_state=ERR)


def differences(found: QpAttributes, rtr: QpAttributes, rts: QpAttributes) -> list[str]:
    """Fields in which a queue pair in RTS is not what its transitions made it."""
    expected = {
        "qp_state": RTS,
        **_fields(to_init(), "port_num", "qp_access_flags"),
        **_fields(rtr, "path_mtu", "dest_qp_num", "rq_psn", "max_dest_rd_atomic", "min_rnr_timer"),
        **_fields(rts, "sq_psn", "timeout", "retry_cnt", "rnr_retry", "max_rd_atomic"),
    }
    wrong = [
        f"{name} {getattr(found, name)} for {value}"
        for name, value in expected.items()
        if getattr(found, name) != value
    ]
    seen, wanted = found.ah_attr, rtr.ah_attr
    if seen.grh.dgid[:] != wanted.grh.dgid[:]:
        wrong.append("ah_attr.grh.dgid")
    for name in ("sgid_index", "hop_limit"):
        if getattr(seen.grh, name) != getattr(wanted.grh, name):
            wrong.append(f"ah_attr.grh.{name}")
    return wrong


def _fields(attributes: QpAttributes, *names: str) -> dict[str, int]:
    return {name: getattr(attributes, name) for name in names}
