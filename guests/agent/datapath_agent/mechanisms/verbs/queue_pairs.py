"""RC queue pairs of an RDMA device: made by pyverbs, taken through their states by libibverbs."""

from __future__ import annotations

import ctypes
import sys
from functools import partial

from datapath_agent.mechanisms.verbs import attributes, commands, ring
from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.mechanisms.verbs.steps import Step

# Where Debian has pyverbs; `python3 -IS` leaves it out of the path.
_PACKAGES = "/usr/lib/python3/dist-packages"
_RC = 2
_PSN_MASK = 0xFFFFFF


class _QueuePair(ctypes.Structure):
    """The beginning of struct ibv_qp."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("qp_context", ctypes.c_void_p),
        ("pd", ctypes.c_void_p),
        ("send_cq", ctypes.c_void_p),
        ("recv_cq", ctypes.c_void_p),
        ("srq", ctypes.c_void_p),
        ("handle", ctypes.c_uint32),
        ("qp_num", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
        ("qp_type", ctypes.c_uint32),
    ]


class _ProtectionDomain(ctypes.Structure):
    """struct ibv_pd."""

    _fields_ = [("context", ctypes.c_void_p), ("handle", ctypes.c_uint32)]


def load_pyverbs() -> None:
    """Import pyverbs, which takes an emulated guest a second; Fault where there is none."""
    if _PACKAGES not in sys.path:
        sys.path.append(_PACKAGES)
    try:
        import pyverbs.qp  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise Fault("missing-tool", f"this guest has no pyverbs: {error}") from None


class Pair:
    """A queue pair, its ibv_qp as an argument, and the attributes that make it RTR and RTS."""

    __slots__ = ("address", "argument", "commands", "made", "number", "rtr", "rts")

    def __init__(
        self,
        made: Any,
        address: int,
        rtr: attributes.QpAttributes,
        rts: attributes.QpAttributes,
    ) -> None:
        self.made = made
        self.number: int = made.qp_num
        self.address = address
        # Built once: a call with it converts nothing.
        self.argument = ctypes.byref(ctypes.c_char.from_address(address))
        self.rtr = rtr
        self.rts = rts
        self.commands: Any = None


class Device:
    """An open RDMA device, in the process that uses it. Close it, or end the process."""

    def __init__(self, name: str, gid: dict[str, Any]) -> None:
        from pyverbs.cq import CQ  # type: ignore[import-not-found,unused-ignore]
        from pyverbs.device import Context  # type: ignore[import-not-found,unused-ignore]
        from pyverbs.pd import PD  # type: ignore[import-not-found,unused-ignore]
        from pyverbs.pyverbs_error import (  # type: ignore[import-not-found,unused-ignore]
            PyverbsError,
        )
        from pyverbs.qp import QPCap, QPInitAttr

        try:
            self._context = Context(name=name)
            self._pd = PD(self._context)
            self._cq = CQ(self._context, 1)
        except PyverbsError as error:
            raise Fault("missing-device", f"{name} cannot be opened: {error}") from None
        self._pd_address = 0  # not known before the first queue pair
        cap = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
        self._init_attributes = QPInitAttr(qp_type=_RC, scq=self._cq, rcq=self._cq, cap=cap)
        self.most_qps: int = self._context.query_device().max_qp
        self._mtu: int = self._context.query_port(1).active_mtu
        self._gid = bytes.fromhex(gid["gid"].replace(":", ""))
        self._gid_index = gid["index"]
        verbs = ctypes.CDLL("libibverbs.so.1")  # CDLL lets go of the GIL in a call, PyDLL does not
        self._modify = verbs.ibv_modify_qp
        self._query = verbs.ibv_query_qp
        self._init = ctypes.byref(attributes.to_init())
        self._err = ctypes.byref(attributes.to_err())

    def create(self) -> Pair:
        """A queue pair in RESET, which will be its own peer."""
        from pyverbs.pyverbs_error import PyverbsError
        from pyverbs.qp import QP

        try:
            made = QP(self._pd, self._init_attributes)
        except PyverbsError as error:
            raise Fault("refused", f"no queue pair more: {error}") from None
        number = made.qp_num
        # Packet numbers of its own, so that a transition which did not take effect shows.
        rtr = attributes.to_rtr(
            dest_qp_num=number,
            rq_psn=number * 3 & _PSN_MASK,
            path_mtu=self._mtu,
            gid=self._gid,
            gid_index=self._gid_index,
        )
        rts = attributes.to_rts(sq_psn=number * 5 & _PSN_MASK)
        return Pair(made, self._address(made), rtr, rts)

    def destroy(self, pair: Pair) -> None:
        pair.made.close()

    def _address(self, made: Any) -> int:
        """Where the ibv_qp of a queue pair is: the first field of pyverbs' object.

        Only newer versions of pyverbs tell. Raises Fault unless what is there is that ibv_qp.
        """
        first_field = id(made) + type(made).__mro__[1].__basicsize__
        address = ctypes.c_size_t.from_address(first_field).value
        if self._pd_address or _is_mapped(address):
            found = _QueuePair.from_address(address)
            if found.qp_num == made.qp_num and found.qp_type == _RC and self._is_pd(found):
                return address
        raise Fault("missing-tool", "this guest's pyverbs does not show where its queue pairs are")

    def _is_pd(self, found: _QueuePair) -> bool:
        """Does what may be a queue pair point to this device's protection domain?"""
        if not self._pd_address and _is_mapped(found.pd or 0):
            domain = _ProtectionDomain.from_address(found.pd)
            if (domain.context, domain.handle) == (found.context, self._pd.handle):
                self._pd_address = found.pd
        return bool(found.pd and found.pd == self._pd_address)

    def steps(self, pair: Pair) -> tuple[Step, ...]:
        """The four transitions, each of which returns 0 or an errno."""
        rtr, rts = ctypes.byref(pair.rtr), ctypes.byref(pair.rts)
        return (
            partial(self._modify, pair.argument, self._init, attributes.INIT_MASK),
            partial(self._modify, pair.argument, rtr, attributes.RTR_MASK),
            partial(self._modify, pair.argument, rts, attributes.RTS_MASK),
            partial(self._modify, pair.argument, self._err, attributes.ERR_MASK),
        )

    def commands(self, pair: Pair) -> tuple[Step, ...]:
        """The same four as requests to the kernel's own workers, which write to the device."""
        handle = _QueuePair.from_address(pair.address).handle
        each = (
            (attributes.to_init(), attributes.INIT_MASK),
            (pair.rtr, attributes.RTR_MASK),
            (pair.rts, attributes.RTS_MASK),
            (attributes.to_err(), attributes.ERR_MASK),
        )
        pair.commands = ctypes.create_string_buffer(
            b"".join(commands.modify(handle, wanted, mask) for wanted, mask in each)
        )
        start = ctypes.addressof(pair.commands)
        fd = self._context.cmd_fd
        return tuple(
            ring.write(fd, start + number * commands.SIZE, commands.SIZE)
            for number in range(len(each))
        )

    def query(self, pair: Pair) -> attributes.QpAttributes:
        found = attributes.QpAttributes()
        init = attributes.QueriedInit()
        status = self._query(
            pair.argument, ctypes.byref(found), attributes.QUERY_MASK, ctypes.byref(init)
        )
        if status:
            raise Fault("tool-failed", f"ibv_query_qp failed with errno {status}")
        return found

    def wrong(self, pair: Pair, state: int) -> str | None:
        """What is wrong with a queue pair that should be in `state`; None if nothing is."""
        found = self.query(pair)
        name = attributes.STATES.get(found.qp_state, "an unknown state")
        if found.qp_state != state:
            return f"it is in {name}, not in {attributes.STATES[state]}"
        if state == attributes.ERR:
            # Error can be entered from anywhere past RESET: these are of RTR and RTS.
            seen = (found.dest_qp_num, found.rq_psn, found.sq_psn)
            if seen != (pair.rtr.dest_qp_num, pair.rtr.rq_psn, pair.rts.sq_psn):
                return "it is in ERR without having been in RTR and RTS"
        return None

    def check_layout(self) -> None:
        """Take a queue pair to RTS and read back every field that was set on the way."""
        pair = self.create()
        for step in self.steps(pair)[:3]:
            if status := step():
                raise Fault("tool-failed", f"ibv_modify_qp failed with errno {status}")
        wrong = attributes.differences(self.query(pair), pair.rtr, pair.rts)
        self.destroy(pair)
        if wrong:
            raise Fault("internal", f"this guest's libibverbs disagrees about ibv_qp_attr: {wrong}")


def _is_mapped(address: int) -> bool:
    """May 8-byte words be read there? A number that is no address must not crash the process."""
    if address == 0 or address % 8:
        return False
    with open("/proc/self/maps") as file:
        for line in file:
            span, access = line.split(None, 2)[:2]
            start, _, end = span.partition("-")
            if int(start, 16) <= address < int(end, 16):
                return access.startswith("r")
    return False
