# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Fronts: what an unmodified program on this device talks to, for each kind of adapter.

- proxy, desktop: the fronts of `http` and `rfb`
- screen, viewer, pixels: what a desktop shows, and who looks at it
- tcp, web, ports: those of carried services
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from client.fronts.desktop import DesktopFront
from client.fronts.origin import ServiceOrigin
from client.fronts.proxy import Proxy
from client.fronts.tcp import TcpPort
from client.session.session import Session
from replay.adapters import http, rfb
from satchel.errors import UnsupportedError


class Front(Protocol):
    """A local port that makes operations of a session out of what programs ask there."""

    port: int
    url: str

    def close(self) -> None:
        """Listen no more."""


FRONTS: dict[str, Callable[[Session, int, ServiceOrigin | None], Front]] = {
    http.kind: Proxy,
    rfb.kind: lambda session, port, origin: DesktopFront(session, port),
}
"""Every front by the kind of its adapter; a port of 0 is a free one."""


def open_front(
    kind: str, session: Session, port: int, origin: ServiceOrigin | None = None
) -> Front:
    """The front of that kind, listening. origin: the service's, for browsers. Raises
    UnsupportedError where this version has none, ConflictError where the port is taken."""
    if kind not in FRONTS:
        known = ", ".join(sorted(FRONTS))
        raise UnsupportedError(f"there is no local port for {kind!r}", why=f"there are: {known}")
    return FRONTS[kind](session, port, origin)


def port_row(front: Front) -> dict[str, Any]:
    """What `satchel status` shows of it."""
    kind = front.url.partition(":")[0]
    port = front.served.port if isinstance(front, TcpPort) else None
    return {"front": kind, "port": port, "local": front.port, "url": front.url}


VNC_PORTS = range(5900, 5910)
"""Where a guest's desktops are: the displays 0 to 9, as every viewer has them."""


def desktop_port(fronts: Iterable[Front]) -> int | None:
    """The local port of the first of them behind which a VNC server is; None where none is."""
    for front in fronts:
        if isinstance(front, DesktopFront):
            return front.port
        if isinstance(front, TcpPort) and front.served.port in VNC_PORTS:
            return front.port
    return None
