# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the service manager is told that started a program: systemd's protocol of `Type=notify`."""

from __future__ import annotations

import contextlib
import os
import socket


def tell_manager(state: str) -> None:
    """For example `READY=1`. Nothing where no manager listens; one that does not hear it is its own
    affair."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto(state.encode(), address)
