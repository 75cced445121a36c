"""Linux native AIO by its system calls: many requests a call, no library.

A request is a control block, eight 64-bit words as in linux/aio_abi.h, which the kernel copies
when it is submitted. Blocks and events are arrays here, so that a batch is filled and read by
slices: in an emulated guest a loop over requests would cost more than the requests.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from array import array

from datapath_agent.protocol import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# io_setup, io_destroy, io_getevents, io_submit.
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}

READ, WRITE = 0, 1
WORDS_A_BLOCK = 8
BYTES_A_BLOCK = 8 * WORDS_A_BLOCK
# Words of a control block: what comes back with its event, and what may change between uses.
DATA_WORD, OPERATION_WORD, BUFFER_WORD, LENGTH_WORD, OFFSET_WORD = 0, 2, 3, 4, 5
_WORDS_AN_EVENT = 4
_RESFD_FLAG = 1
_WAIT_NS = 100_000_000

_libc = ctypes.CDLL(None, use_errno=True)
_call = ctypes.CDLL(None, use_errno=True).syscall
_call.argtypes = [ctypes.c_long] * 6
_call.restype = ctypes.c_long


def control_block(
    operation: int, fd: int, buffer_address: int, byte_count: int, notify_fd: int = -1
) -> array[int]:
    """The words of a request at offset 0; its completion is also told to eventfd `notify_fd`."""
    told = _RESFD_FLAG | notify_fd << 32 if notify_fd >= 0 else 0
    return array("Q", [0, 0, operation | fd << 32, buffer_address, byte_count, 0, 0, told])


def operation_word(operation: int, fd: int) -> int:
    return operation | fd << 32


def eventfd(initial: int = 0) -> int:
    """An eventfd that reads without blocking; Python has a function for it only from 3.10."""
    fd: int = _libc.eventfd(initial, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise _failed("eventfd")
    return fd


def address_of(memory: mmap.mmap) -> int:
    """Where `memory` is mapped: in a forked process at the same place."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def open_direct(path: str, *, writing: bool) -> int:
    """`path` open past the page cache. Raises Fault where that is not possible."""
    try:
        return os.open(path, (os.O_RDWR if writing else os.O_RDONLY) | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise Fault(
            "missing-device", f"{path} cannot be opened for direct I/O: {error.strerror}"
        ) from None


class Context:
    """Up to `depth` requests at the kernel. Use as a context manager."""

    def __init__(self, depth: int) -> None:
        machine = os.uname().machine
        if machine not in _CALLS:
            raise Fault(
                "refused", f"the storage engine does not know the system calls of {machine}"
            )
        self._setup, self._destroy, self._getevents, self._submit = _CALLS[machine]
        self.depth = depth
        self._pointers = array("Q", bytes(8 * depth))
        self._events = array("Q", bytes(8 * _WORDS_AN_EVENT * depth))
        self._pointers_address = self._pointers.buffer_info()[0]
        self._events_address = self._events.buffer_info()[0]
        # Slices of a view copy once, those of an array twice.
        self._pointers_view = memoryview(self._pointers)
        self._timeout = array("Q", [0, _WAIT_NS])
        self._timeout_address = self._timeout.buffer_info()[0]
        identifier = ctypes.c_ulong(0)
        if _call(self._setup, depth, ctypes.addressof(identifier), 0, 0, 0) < 0:
            raise _failed("io_setup")
        self._identifier = identifier.value

    def submit(self, blocks: Sequence[int]) -> None:
        """Hand control blocks, given by address, to the kernel: all of them."""
        count = len(blocks)
        self._pointers_view[:count] = array("Q", blocks)
        address = self._pointers_address
        while True:
            taken = _call(self._submit, self._identifier, count, address, 0, 0)
            if taken == count:
                return
            if taken > 0:
                count -= taken
                address += 8 * taken
            elif ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                raise _failed("io_submit")

    def wait(self, at_least: int) -> tuple[list[int], list[int], list[int]]:
        """Completed requests: their control blocks' addresses, data words and results.

        A result is a byte count, or 2^64 less an errno. Fewer than `at_least` come, or none,
        after a tenth of a second or when a signal arrives.
        """
        count = _call(
            self._getevents,
            self._identifier,
            at_least,
            self.depth,
            self._events_address,
            self._timeout_address,
        )
        if count <= 0:
            if count < 0 and ctypes.get_errno() != errno.EINTR:
                raise _failed("io_getevents")
            return [], [], []
        events = self._events[: count * _WORDS_AN_EVENT]
        return events[1::4].tolist(), events[0::4].tolist(), events[2::4].tolist()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        _call(self._destroy, self._identifier, 0, 0, 0, 0)


def _failed(call: str) -> Fault:
    return Fault("refused", f"{call}: {os.strerror(ctypes.get_errno())}")


def error_of(result: int) -> str:
    """What a result that is not the whole length says."""
    signed = result - (1 << 64) if result >> 63 else result
    return os.strerror(-signed) if signed < 0 else f"only {signed} bytes"
