"""An io_uring whose requests are made by the kernel's own worker threads.

IOSQE_ASYNC sends every request to io-wq at once: the closest that Linux comes to a work item of
its own. Layouts are those of <linux/io_uring.h>; x86 keeps stores in order, and the kernel looks
at the submission ring only in io_uring_enter().
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SETUP, _ENTER, _REGISTER = 425, 426, 427
_OP_NOP, _OP_WRITE = 0, 23
_ASYNC = 1 << 4
_GET_EVENTS = 1
_MAX_WORKERS = 19
_SQES_OFFSET = 0x10000000
_FEATURE_SINGLE_MMAP = 1
# struct io_uring_sqe: opcode, flags, ioprio, fd, off, addr, len, rw_flags, user_data, the rest.
_SQE = struct.Struct("=BBHiQQIIQ24x")
_TAG_AT = 32
# struct io_uring_cqe: user_data, res, flags.
_CQE = struct.Struct("=QiI")
# Places of head, tail, mask and array in struct io_uring_params, in 32-bit words.
_SQ_TAIL, _SQ_MASK, _SQ_ARRAY = 11, 12, 16
_CQ_HEAD, _CQ_TAIL, _CQ_MASK, _CQ_CQES = 20, 21, 22, 25

_libc = ctypes.CDLL(None, use_errno=True)


def nothing() -> bytes:
    """A request that does nothing, in a worker."""
    return _SQE.pack(_OP_NOP, _ASYNC, 0, -1, 0, 0, 0, 0, 0)


def write(fd: int, address: int, size: int) -> bytes:
    """write(2) of `size` bytes at `address`, in a worker; -1 is where the file's own end is."""
    return _SQE.pack(_OP_WRITE, _ASYNC, 0, fd, 2**64 - 1, address, size, 0, 0)


class Ring:
    """Up to `entries` requests in flight, made by at most `workers` threads of the kernel."""

    def __init__(self, entries: int, workers: int) -> None:
        params = (ctypes.c_uint32 * 30)()
        self._fd = _call(_SETUP, entries, ctypes.byref(params))
        if not params[5] & _FEATURE_SINGLE_MMAP:
            raise Fault("refused", "this guest's io_uring is older than Linux 5.4")
        # [bounded, unbounded]: which of them a file's writes go to is the kernel's business.
        most = (ctypes.c_uint32 * 2)(workers, workers)
        _call(_REGISTER, self._fd, _MAX_WORKERS, ctypes.byref(most), 2)
        cqes_at = params[_CQ_CQES]
        size = max(params[_SQ_ARRAY] + 4 * params[0], cqes_at + _CQE.size * params[1])
        self._ring = mmap.mmap(self._fd, size)
        self._sqes = mmap.mmap(self._fd, _SQE.size * params[0], offset=_SQES_OFFSET)
        self._words = memoryview(self._ring).cast("I")
        self._sq_tail = params[_SQ_TAIL] // 4
        self._sq_mask = self._words[params[_SQ_MASK] // 4]
        self._cq_head, self._cq_tail = params[_CQ_HEAD] // 4, params[_CQ_TAIL] // 4
        self._cq_mask = self._words[params[_CQ_MASK] // 4]
        self._cqes_at = cqes_at
        self._pending = 0
        array = params[_SQ_ARRAY] // 4
        for slot in range(params[0]):
            self._words[array + slot] = slot

    def push(self, request: bytes, tag: int) -> None:
        """Put it in the ring; the next enter() submits it."""
        tail = self._words[self._sq_tail]
        at = (tail & self._sq_mask) * _SQE.size
        self._sqes[at : at + _SQE.size] = request
        struct.pack_into("=Q", self._sqes, at + _TAG_AT, tag)
        self._words[self._sq_tail] = (tail + 1) & 0xFFFFFFFF
        self._pending += 1

    def enter(self, completions: int) -> None:
        """Submit what was pushed, and wait until that many have completed."""
        self._pending -= _call(_ENTER, self._fd, self._pending, completions, _GET_EVENTS, 0, 0)

    def take(self) -> Iterator[tuple[int, int]]:
        """Tag and result (a negative errno if it failed) of each that has completed."""
        words = self._words
        head, tail = words[self._cq_head], words[self._cq_tail]
        while head != tail:
            at = self._cqes_at + (head & self._cq_mask) * _CQE.size
            tag, result, _ = _CQE.unpack_from(self._ring, at)
            head = (head + 1) & 0xFFFFFFFF
            words[self._cq_head] = head
            yield tag, result

    def close(self) -> None:
        self._words.release()
        self._ring.close()
        self._sqes.close()
        os.close(self._fd)


def _call(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    done: int = _libc.syscall(ctypes.c_long(number), *words)
    if done < 0:
        error = ctypes.get_errno()
        raise Fault("refused", f"io_uring: {os.strerror(error)}")
    return done
