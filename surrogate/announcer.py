# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate describes itself to everybody on its network."""

from __future__ import annotations

import contextlib

from satchel.errors import SatchelError
from surrogate.settings import SurrogateSettings
from wire import Announcement, HostStatus, Identity, fingerprint, host_keys


class HostFingerprints:
    """The fingerprints by which guests know this host again: of the authority that certifies it,
    and of its sshd's keys. One thread calls."""

    def __init__(self, settings: SurrogateSettings) -> None:
        self._settings = settings
        self._found: tuple[str, ...] = ()

    def now(self) -> tuple[str, ...]:
        """Return them; empty until an sshd has answered once."""
        if not self._found:
            with contextlib.suppress(SatchelError):
                keys = host_keys("127.0.0.1", self._settings.ssh_port)
                authority = []
                with contextlib.suppress(SatchelError):
                    authority = [Identity.open(self._settings.authority / "hosts").public]
                self._found = tuple(dict.fromkeys(map(fingerprint, [*authority, *keys])))
        return self._found


def announcement(
    settings: SurrogateSettings, status: HostStatus, keys: tuple[str, ...]
) -> Announcement:
    """Return the announcement, without any tenant's business. status: of the host now; keys: see
    HostFingerprints."""
    memory = status.memory
    return Announcement(
        name=status.name,
        port=settings.ssh_port,
        version=status.version,
        runs=status.runs,
        load=round(100 * (memory.total - memory.free) / max(1, memory.total)),
        price=settings.price,
        keys=keys,
    )
