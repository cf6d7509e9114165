# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""All tenants of a host: who is admitted, and who is not any more."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import socket
import stat
import threading

from chunkstore import Store
from satchel.errors import NotFoundError
from surrogate.settings import SurrogateSettings
from surrogate.tenants.ban_list import NAME, BanList
from surrogate.tenants.pacer import Pacer
from surrogate.tenants.readable_chunks import ReadableChunks
from surrogate.tenants.tenant import ACCOUNT, DAY_SECONDS, CapReached, Tenant, checked_identity

KNOWN = 1024
"""Tenants that are remembered at once. One is for a day after it was heard of, as its bytes are."""


_SHORT = re.compile(r"[0-9a-f]{12}")


class Tenants:
    """Of one host. Thread-safe."""

    def __init__(self, settings: SurrogateSettings, store: Store) -> None:
        """Raises what BanList raises."""
        self._settings = settings
        self._store = store
        self._banned = BanList(settings.data / NAME)
        self._lock = threading.Lock()
        self._known: dict[str, Tenant] = {}
        self.pacer = Pacer()
        self.account = self.admit(ACCOUNT)

    def admit(self, identity: object) -> Tenant:
        """The tenant of that identity, from now on if there was none. Raises InvalidIdentity,
        TenantBanned, CapReached where too many are known."""
        name = checked_identity(identity)
        self._banned.require_none(name)
        with self._lock:
            if name not in self._known:
                self._forget_old()
                self._known[name] = self._new(name)
            tenant = self._known[name]
        tenant.touch()
        return tenant

    def admitted(self, identity: str) -> Tenant:
        """Of an identity that was admitted, also of one that has been banned since."""
        with self._lock:
            return self._known[identity]

    def all(self) -> list[Tenant]:
        with self._lock:
            return list(self._known.values())

    def known(self, identity: object) -> Tenant:
        """The one that was admitted before. Raises InvalidIdentity, NotFoundError."""
        with self._lock:
            tenant = self._known.get(checked_identity(identity))
        if tenant is None:
            raise NotFoundError(
                f"no tenant {identity} is here", fix="`satchel-surrogate tenants` lists them"
            )
        return tenant

    def banned(self) -> list[str]:
        """Identities, in order."""
        return self._banned.all()

    def ban(self, identity: object) -> None:
        """Admit it no more; durable. What it has here is not ended by that. Raises
        InvalidIdentity, OSError."""
        self._banned.add(checked_identity(identity))

    def unban(self, identity: object) -> None:
        """Admit it again. Raises InvalidIdentity, NotFoundError, OSError."""
        self._banned.remove(checked_identity(identity))

    def drop_short(self) -> None:
        """Remove the folders of earlier versions, which had names of 48 bits: a stranger can make
        an identity with the same ones. Call it when adopted machines have their tenants."""
        for path in self._settings.forwarded.iterdir():
            if _SHORT.fullmatch(path.name) and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)

    def clear_forwarded(self) -> None:
        """Remove sockets behind which nobody listens: sshd leaves them when a connection ends."""
        found = (path for tenant in self.all() for path in tenant.forwarded.iterdir())
        for path in [path for path in found if stat.S_ISSOCK(path.lstat().st_mode)]:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(1.0)
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink(missing_ok=True)
                except OSError:
                    continue

    def _new(self, identity: str) -> Tenant:
        folder = self._settings.forwarded
        if identity != ACCOUNT:  # the same one after a restart, for machines that go on
            old = folder / hashlib.sha256(identity.encode()).hexdigest()[:12]
            folder /= folder_name(identity)
            if old.exists() and not folder.exists():
                old.rename(folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Tenant(identity, self._settings.tenant, folder, ReadableChunks(self._store))

    def _forget_old(self) -> None:
        for tenant in [*self._known.values()]:
            if tenant.idle_seconds > DAY_SECONDS and tenant.identity != ACCOUNT:
                del self._known[tenant.identity]
                shutil.rmtree(tenant.forwarded, ignore_errors=True)
        if len(self._known) >= KNOWN:
            raise CapReached(
                "this surrogate has too many tenants",
                why=f"{KNOWN} have come within a day",
                fix="use another surrogate",
            )


def folder_name(identity: str) -> str:
    """Return the name of a tenant's folder: the whole SHA-256 of its identity, in 43 characters,
    because a socket's path is short."""
    digest = hashlib.sha256(identity.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
