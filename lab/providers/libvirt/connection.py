"""A connection to libvirt, and its errors in the lab's words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lab.errors import LabError


def connect(uri: str) -> Any:
    """A virConnect to `uri` (libvirt-python carries no types)."""
    import libvirt

    # Errors are raised; printing them as well is libvirt's default.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    with translated(f"connect to {uri}", hint="`lab doctor` says what libvirt lacks"):
        return libvirt.open(uri)


@contextlib.contextmanager
def translated(doing: str, *, where: str | None = None, hint: str | None = None) -> Iterator[None]:
    """Turn libvirt's errors into LabErrors that say what was being done."""
    import libvirt

    try:
        yield
    except libvirt.libvirtError as error:
        message, _, detail = (error.get_error_message() or str(error)).partition("\n")
        raise LabError(
            f"libvirt could not {doing}: {message}", where=where, detail=detail or None, hint=hint
        ) from error
