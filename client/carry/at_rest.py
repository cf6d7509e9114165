# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who leads while nobody does."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from chunkstore import TableRoot
from client.places.home import Home
from client.places.place import DoorClosed, OfferedDelta
from images import Manifest


class AtRest:
    """A machine that nobody runs: a state on the medium, without home in reach. It leads until a
    surrogate does, and answers nothing."""

    name = "medium"

    def __init__(self, home: Home) -> None:
        self.link = home.link

    def ask(self, path: str, timeout: float) -> Any:
        raise self._rests()

    def delta(self, since: Mapping[str, TableRoot], *, hold: bool = False) -> OfferedDelta:
        raise self._rests()

    def delta_to(self, since: Mapping[str, TableRoot], frozen: Manifest) -> OfferedDelta:
        raise self._rests()

    def fetch(self, offered: OfferedDelta) -> bytes:
        raise self._rests()

    def go_on(self) -> None:
        """Nothing was held."""

    def carrier(self) -> socket.socket:
        raise self._rests()

    def lives(self) -> bool | None:
        return None

    def end(self) -> bool:
        return True

    @staticmethod
    def _rests() -> DoorClosed:
        fix = "`satchel move SERVICE --to SURROGATE`"
        return DoorClosed("the service runs nowhere", why="home is out of reach", fix=fix)
