"""The same transitions by pyverbs' own QP.modify, which holds the GIL while it is in the call."""

from __future__ import annotations

from functools import partial

from datapath_agent.mechanisms.verbs import attributes as ctypes_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.mechanisms.verbs.queue_pairs import Pair
    from datapath_agent.mechanisms.verbs.steps import Step


def steps(pair: Pair) -> tuple[Step, ...]:
    masks = (
        ctypes_attributes.INIT_MASK, ctypes_attributes.RTR_MASK,
        ctypes_attributes.RTS_MASK, ctypes_attributes.ERR_MASK,
    )  # fmt: skip
    each = zip(_attributes(pair), masks)
    return tuple(partial(_modify, pair.made, attributes, mask) for attributes, mask in each)


def _modify(made: Any, attributes: Any, mask: int) -> int:
    from pyverbs.pyverbs_error import (  # type: ignore[import-not-found,unused-ignore]
        PyverbsRDMAError,
    )

    try:
        made.modify(attributes, mask)
    except PyverbsRDMAError as error:
        return error.error_code or -1
    return 0


def _attributes(pair: Pair) -> tuple[Any, ...]:
    from pyverbs.addr import (  # type: ignore[import-not-found,unused-ignore]
        GID,
        AHAttr,
        GlobalRoute,
    )
    from pyverbs.qp import QPAttr  # type: ignore[import-not-found,unused-ignore]

    init = QPAttr(qp_state=ctypes_attributes.INIT, port_num=1)
    init.qp_access_flags = ctypes_attributes.to_init().qp_access_flags
    rtr = QPAttr(qp_state=ctypes_attributes.RTR, path_mtu=pair.rtr.path_mtu)
    for name in ("dest_qp_num", "rq_psn", "max_dest_rd_atomic", "min_rnr_timer"):
        setattr(rtr, name, getattr(pair.rtr, name))
    grh = pair.rtr.ah_attr.grh
    route = GlobalRoute(
        dgid=GID(_words(bytes(grh.dgid))), sgid_index=grh.sgid_index, hop_limit=grh.hop_limit
    )
    rtr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
    rts = QPAttr(qp_state=ctypes_attributes.RTS)
    for name in ("sq_psn", "timeout", "retry_cnt", "rnr_retry", "max_rd_atomic"):
        setattr(rts, name, getattr(pair.rts, name))
    return init, rtr, rts, QPAttr(qp_state=ctypes_attributes.ERR)


def _words(gid: bytes) -> str:
    return ":".join(gid[at : at + 2].hex() for at in range(0, 16, 2))
