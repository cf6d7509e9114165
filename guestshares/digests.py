# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest's request to its shares is, apart from what two replicas of one guest differ in.

Replicas execute the same operations from the same memory. Their kernels still number requests and
processes in another order, have their structures at other addresses, from which the owner of a
lock is made, and have another time. None of that is in a digest. docs/shares.md, Replicas.
Layouts are those of linux/fuse.h.
"""

from __future__ import annotations

import hashlib
import os
import struct

from guestshares.kernel import IN_HEADER, KernelRequest, Opcode

CHANGING = frozenset(
    {
        Opcode.SETATTR,
        Opcode.SYMLINK,
        Opcode.MKNOD,
        Opcode.MKDIR,
        Opcode.UNLINK,
        Opcode.RMDIR,
        Opcode.RENAME,
        Opcode.LINK,
        Opcode.WRITE,
        Opcode.SETLK,
        Opcode.SETLKW,
        Opcode.CREATE,
        Opcode.FALLOCATE,
        Opcode.RENAME2,
    }
)
"""Requests that change a share or take a lock; and an OPEN that writes or truncates."""

RELEASING = frozenset({Opcode.RELEASE, Opcode.RELEASEDIR})
"""Requests that nobody waits for the answer of, and that are made at any time after a close."""

_OWNERS: dict[int, tuple[tuple[int, int], ...]] = {
    Opcode.READ: ((24, 32),),
    Opcode.READDIR: ((24, 32),),
    Opcode.READDIRPLUS: ((24, 32),),
    Opcode.WRITE: ((24, 32),),
    Opcode.SETATTR: ((24, 32), (48, 56), (64, 68)),
    Opcode.FLUSH: ((16, 24),),
    Opcode.GETLK: ((8, 16), (36, 40)),
    Opcode.SETLK: ((8, 16), (36, 40)),
    Opcode.SETLKW: ((8, 16), (36, 40)),
}
"""Where in a body there are lock owners, processes, and the time of the change."""

_NOW = ((1 << 7, ((32, 40), (56, 60))), (1 << 8, ((40, 48), (60, 64))))
"""Of a SETATTR: the bit that says that a time is to be now, and where the kernel's now is."""

_WRITE_FLAGS, _WRITE_OFFSET = 32, (8, 16)


def changes(request: KernelRequest) -> bool:
    """Whether it may change the share, or who has a lock in it."""
    if request.opcode == Opcode.OPEN:
        (flags,) = struct.unpack_from("<I", request.message, IN_HEADER.size)
        return bool(flags & (os.O_ACCMODE | os.O_TRUNC))
    return request.opcode in CHANGING


def call_digest(request: KernelRequest) -> bytes:
    """SHA-256 of a request whose `refusal` is 0, without what replicas may differ in."""
    _, opcode, _, file, user, group, _, _ = IN_HEADER.unpack_from(request.message)
    body = bytearray(request.message[IN_HEADER.size :])
    for first, end in _differing(opcode, body):
        body[first:end] = bytes(end - first)
    about = struct.pack("<IQII", opcode, file, user, group)
    return hashlib.sha256(about + body).digest()


def _differing(opcode: int, body: bytearray) -> list[tuple[int, int]]:
    places = list(_OWNERS.get(opcode, ()))
    if opcode == Opcode.SETATTR:
        (valid,) = struct.unpack_from("<I", body)
        places += [place for bit, found in _NOW if valid & bit for place in found]
    if opcode == Opcode.WRITE:
        # An append goes to the end, wherever the guest's kernel believed that to be.
        (flags,) = struct.unpack_from("<I", body, _WRITE_FLAGS)
        places += [_WRITE_OFFSET] if flags & os.O_APPEND else []
    return places
