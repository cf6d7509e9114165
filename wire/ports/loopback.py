# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The other end of a connection through 127.0.0.1, as the kernel's table of sockets has it."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

_IPV4_MAPPED = "0000000000000000FFFF0000"
"""Begins the address of a program that uses IPv6 for IPv4."""


@dataclass(frozen=True)
class LoopbackPeer:
    """user: the owner of the other end's socket; inode: of that socket."""

    user: int
    inode: int

    @classmethod
    def of(cls, connection: socket.socket) -> LoopbackPeer | None:
        """Return the peer, or None if this host's table does not have it. Raises OSError."""
        peer, own = _entry(connection.getpeername()), _entry(connection.getsockname())
        for table, prefix in (("tcp", ""), ("tcp6", _IPV4_MAPPED)):
            wanted = [prefix + peer, prefix + own]
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1:3] == wanted and int(fields[9]):  # not what a closed socket left
                    return cls(int(fields[7]), int(fields[9]))
        return None


def is_own_user(connection: socket.socket) -> bool:
    """Return whether a program of this process's user is at the other end."""
    try:
        peer = LoopbackPeer.of(connection)
    except OSError:
        return False
    return peer is not None and peer.user == os.geteuid()


def _entry(address: tuple[str, int]) -> str:
    """Return an address as the table writes it: in the machine's order of bytes."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"
