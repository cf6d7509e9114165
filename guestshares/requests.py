# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What of a FUSE request says whether and through which handle it writes; requests of no kernel."""

from __future__ import annotations

import os
import struct

from guestshares.digests import changes
from guestshares.kernel import IN_HEADER, KernelRequest, Opcode

_BY_HANDLE = 1 << 6
"""Of a SETATTR: it says the handle."""


def handle_in(body: bytes | memoryview) -> int:
    """What both fuse_open_out and fuse_release_in begin with."""
    return int(struct.unpack_from("<Q", body)[0])


def written_through(request: KernelRequest) -> int | None:
    """The handle through which a request writes to a file that is open; None where it does not."""
    body = memoryview(request.message)[IN_HEADER.size :]
    if request.opcode == Opcode.WRITE:
        return handle_in(body)
    if request.opcode == Opcode.SETATTR:
        valid, _, handle = struct.unpack_from("<IIQ", body)
        return int(handle) if valid & _BY_HANDLE else None
    return None


def lasting(request: KernelRequest) -> bool:
    """Whether it must not be done twice after a power cut. An open alone may be."""
    if request.opcode == Opcode.OPEN:
        (flags,) = struct.unpack_from("<I", request.message, IN_HEADER.size)
        return bool(flags & os.O_TRUNC)
    return changes(request)


def request_like(opcode: Opcode, of: KernelRequest, body: bytes) -> KernelRequest:
    """Another request about the same file."""
    _, _, _, *rest = IN_HEADER.unpack_from(of.message)
    header = IN_HEADER.pack(IN_HEADER.size + len(body), opcode, 0, *rest)
    return KernelRequest(opcode, 0, header + body)


def asked(opcode: Opcode, file: int, body: bytes) -> KernelRequest:
    """A request of nobody's kernel."""
    header = IN_HEADER.pack(IN_HEADER.size + len(body), opcode, 0, file, 0, 0, 0, 0)
    return KernelRequest(opcode, 0, header + body)
