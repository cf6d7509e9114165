# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Hears from the kernel when this device has another address or route, as after a walk."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from satchel.readiness import readable

_GROUPS = 0x10 | 0x40 | 0x100 | 0x400
"""Addresses and routes of IPv4 and of IPv6 (rtnetlink(7): RTMGRP_IPV4_IFADDR and so on)."""

_MESSAGES = 1 << 16


class RouteWatch:
    """Calls `changed`, on a thread of its own, after each change. Never, where this kernel does
    not tell: whoever has to know looks as well, now and then."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """Of the network namespace of the calling thread. changed: returns soon, never fails"""
        self._changed = changed
        self._kernel = _kernel()
        self._mine, self._its = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="route-watch", daemon=True)
        if self._kernel:
            self._thread.start()

    def close(self) -> None:
        """Returns when the thread has ended."""
        self._mine.close()
        if self._kernel:
            self._thread.join()
            self._kernel.close()
        self._its.close()

    def _run(self) -> None:
        assert self._kernel is not None
        while True:
            ready = readable([self._kernel, self._its])
            if self._its in ready:
                return
            with contextlib.suppress(OSError):  # too many at once for its buffer: changed as well
                self._kernel.recv(_MESSAGES)
            self._changed()


def _kernel() -> socket.socket | None:
    try:
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    except OSError:
        return None
    try:
        kernel.bind((0, _GROUPS))
        return kernel
    except OSError:
        kernel.close()
        return None
