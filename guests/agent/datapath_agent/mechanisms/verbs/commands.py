"""ibv_modify_qp as the command that libibverbs writes to the device: struct ib_uverbs_modify_qp.

From <rdma/ib_user_verbs.h>. Only for the kernel's own workers, which can be given a write but no
function to call.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datapath_agent.mechanisms.verbs.attributes import QpAttributes

_MODIFY_QP = 26
# struct ib_uverbs_qp_dest: GID, flow label, LID, reserved, and eight bytes from the GID's index on
_DESTINATION = struct.Struct("=16sIHHBBBBBBBB")
# from qp_handle on, after two destinations
_REST = struct.Struct("=7I2H14B2x")
# struct ib_uverbs_cmd_hdr: command, its words, words of the answer (there is none)
_HEADER = struct.Struct("=IHH")
SIZE = _HEADER.size + 2 * _DESTINATION.size + _REST.size


def modify(handle: int, wanted: QpAttributes, mask: int) -> bytes:
    """The command that makes queue pair `handle` what `wanted` says in the fields of `mask`."""
    address = wanted.ah_attr
    destination = _DESTINATION.pack(
        bytes(address.grh.dgid), address.grh.flow_label, address.dlid, 0,
        address.grh.sgid_index, address.grh.hop_limit, address.grh.traffic_class, address.sl,
        address.src_path_bits, address.static_rate, address.is_global, address.port_num,
    )  # fmt: skip
    rest = _REST.pack(
        handle, mask, wanted.qkey, wanted.rq_psn, wanted.sq_psn, wanted.dest_qp_num,
        wanted.qp_access_flags, wanted.pkey_index, wanted.alt_pkey_index,
        wanted.qp_state, wanted.cur_qp_state, wanted.path_mtu, wanted.path_mig_state,
        wanted.en_sqd_async_notify, wanted.max_rd_atomic, wanted.max_dest_rd_atomic,
        wanted.min_rnr_timer, wanted.port_num, wanted.timeout, wanted.retry_cnt,
        wanted.rnr_retry, wanted.alt_port_num, wanted.alt_timeout,
    )  # fmt: skip
    header = _HEADER.pack(_MODIFY_QP, SIZE // 4, 0)
    return header + destination + bytes(_DESTINATION.size) + rest
