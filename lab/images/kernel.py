"""The uncompressed kernel inside a bzImage.

A guest that starts at the ELF entry point (PVH) skips firmware, real mode and the kernel's own
decompressor, which is most of the time that an emulated CPU needs to reach /init.
"""

from __future__ import annotations

import lzma
import struct
import subprocess

from lab.errors import LabError

_XZ = b"\xfd7zXZ\0"
_ZSTD = b"\x28\xb5\x2f\xfd"


def vmlinux_of(bzimage: bytes) -> bytes:
    """The ELF kernel that `bzimage` would unpack. Raises LabError for any other kind of file."""
    if bzimage[0x202:0x206] != b"HdrS":
        raise LabError("is not a bzImage: it has no setup header")
    setup_sectors = bzimage[0x1F1] or 4
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    # Its last four bytes are the size of what it unpacks to.
    payload = bzimage[start : start + length - 4]
    if payload.startswith(_XZ):
        kernel = lzma.decompress(payload)
    elif payload.startswith(_ZSTD):
        kernel = subprocess.run(
            ["zstd", "-dc"], input=payload, stdout=subprocess.PIPE, check=True
        ).stdout
    else:
        raise LabError(f"kernel compression not known: it starts with {payload[:6].hex()}")
    if not kernel.startswith(b"\x7fELF"):
        raise LabError("the kernel's payload is not an ELF file")
    return kernel
