# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What guests of a service have below /satchel: the service is a node of a share.

The share is the one that has the service's name, else the only one that there is.
"""

from __future__ import annotations

import functools
import socket
from pathlib import Path

from guestshares import MemberHost, ServedSession
from homeserver.settings import HomeSettings
from homeserver.shares import ShareRegistry
from satchel.errors import NotFoundError
from shares.node import Buffer, Member
from wire import Caller


class HomeShares:
    """See replica.ShareHost. Of one service."""

    def __init__(self, settings: HomeSettings, service: str) -> None:
        self._settings, self._service = settings, service

    def check(self) -> None:
        """Raises NotFoundError where no share is meant."""
        self.share()

    def serve(self, session: socket.socket) -> ServedSession:
        """Raises NotFoundError where no share is meant, and what joining one does."""
        host = MemberHost(self._join, self._settings.run / "nodes")
        return host.serve(session)

    def _join(self, folder: Path) -> Member:
        call = functools.partial(Caller, self._settings.share_socket)
        return Member(call, self.share(), self._service, Buffer(folder))

    def share(self) -> str:
        """Its name. Raises NotFoundError where none is meant."""
        names = ShareRegistry(self._settings.shares).names()
        if self._service in names:
            return self._service
        if len(names) != 1:
            raise NotFoundError(
                f"no share for the guest of {self._service}",
                why=f"none has its name, and there are {len(names)}",
                fix=f"satchel-home share add FOLDER --name {self._service}",
            )
        return names[0]
