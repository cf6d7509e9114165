# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A socket for each tenant's API, with threads and connections of its own.

What waits in one holds nothing of another. A socket's name is drawn at random. It is opened when
the tenant is admitted, and closed when nobody was connected for a while. The tenant's machines go
on then, and the next time it has another socket.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import resource
import secrets
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import StateError
from surrogate.api import MAX_BODY, body_limit, surrogate_app
from surrogate.caps import TenantCaps
from surrogate.host import Host
from surrogate.tenants.pacer import SWITCH_SECONDS
from surrogate.tenants.tenant import ACCOUNT, CapReached, Tenant
from wire import Intake, Server, serve

logger = logging.getLogger(__name__)

IDLE_SECONDS = 120.0
IDLE_CHECK_SECONDS = 5.0

MOST = 128
"""Sockets that are open at once, where the process may have enough descriptors."""

CONNECTION_DESCRIPTORS = 3
"""Of a connection: itself, and a file each for a large request and a large answer."""

CONNECTIONS_PART = 2
"""Connections of tenants take at most one part in so many of the descriptors. The rest is for
machines and their sources."""

GRACE_SECONDS = 1.0
"""What a request has that is under way when its tenant is ended."""


@dataclass
class _Open:
    server: Server
    heard: float


class TenantSockets:
    """Of one daemon. Thread-safe; `close` ends them all. The interpreter's switch interval becomes
    SWITCH_SECONDS."""

    def __init__(self, host: Host, idle_seconds: float = IDLE_SECONDS) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._host = host
        self._folder = host.settings.tenants_folder
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self._folder.glob("*.sock"):
            left.unlink(missing_ok=True)
        self._idle_seconds = idle_seconds
        self._most = min(MOST, _affordable(host.settings.tenant))
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}
        self._closing = threading.Event()
        look = min(IDLE_CHECK_SECONDS, idle_seconds / 2)
        self._thread = threading.Thread(
            target=self._watch, args=(look,), name="tenants", daemon=True
        )
        self._thread.start()

    def open(self, tenant: Tenant) -> Path:
        """Return the socket of the tenant's API, and open it if it is closed. Raises CapReached if
        too many are open, StateError while the daemon ends."""
        with self._lock:
            if self._closing.is_set():
                raise StateError(f"{self._host.name} is being stopped")
            if tenant.identity == ACCOUNT:
                return self._host.settings.socket
            found = self._open.get(tenant.identity)
            if found is None:
                found = self._open[tenant.identity] = _Open(self._serve(tenant), 0.0)
            found.heard = time.monotonic()
            return found.server.path

    def connections(self, tenant: Tenant) -> int:
        """How many that tenant has now."""
        with self._lock:
            found = self._open.get(tenant.identity)
            return found.server.connections if found else 0

    def end(self, tenant: Tenant) -> None:
        """Close its socket, and cut its connections. Harmless where there is none."""
        with self._lock:
            found = self._open.pop(tenant.identity, None)
        if found:
            found.server.close(grace=GRACE_SECONDS)

    def end_known(self, identity: object) -> None:
        """End all that the tenant of that identity has here. Raises as `Tenants.known`."""
        self.end_all(self._host.tenants.known(identity))

    def end_all(self, tenant: Tenant) -> None:
        """End all that it has here, and cut its connections. It may come again."""
        self.end(tenant)
        self._host.end_all(tenant)

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            ended = [*self._open.values()]
            self._open.clear()
        for found in ended:
            found.server.close(grace=GRACE_SECONDS)
        self._thread.join()

    def _serve(self, tenant: Tenant) -> Server:
        if len(self._open) >= self._most:
            raise CapReached(
                f"{self._host.name} serves no more tenants at once",
                why=f"{self._most} are connected",
                fix="try again later, or use another surrogate",
            )
        return serve(
            surrogate_app(self._host, tenant),
            self._folder / f"{secrets.token_hex(8)}.sock",
            threads=tenant.caps.requests,
            max_body=MAX_BODY,
            intake=dataclasses.replace(
                intake_of(tenant.caps),
                rest=functools.partial(self._host.tenants.pacer.rest, tenant.identity),
            ),
        )

    def _watch(self, look: float) -> None:
        while not self._closing.wait(look):
            now = time.monotonic()
            with self._lock:
                for found in self._open.values():
                    if found.server.connections:
                        found.heard = now
                idle = [
                    self._open.pop(identity)
                    for identity, found in [*self._open.items()]
                    if now - found.heard > self._idle_seconds
                ]
            for found in idle:
                found.server.close()


def _affordable(caps: TenantCaps) -> int:
    """How many tenants may have all their connections at once."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, allowed // CONNECTIONS_PART // (CONNECTION_DESCRIPTORS * caps.connections))


def intake_of(caps: TenantCaps) -> Intake:
    """Return the limits of the server of a tenant's API."""
    return Intake(caps.connections, caps.body_mib << 20, body_limit)
