# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where the replica of a carried service that leads is: at home, or at a surrogate."""

from __future__ import annotations

import base64
import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import urlencode

from chunkstore import TableRoot
from client.platform.settings import HOME
from client.session.endpoints import SurrogateEndpoint
from client.session.home import HomeService
from images import Manifest
from replica import tables_of
from satchel.errors import AccessError, IntegrityError, SatchelError, UnavailableError
from wire import DeltaOffer, HandoverState, Link, ReplicaStatus

DELTA_SECONDS = 300.0
"""How long a freeze may take, with the pages that it needs."""

GO_SECONDS = 90.0

SIGN_SECONDS = 3.0
"""How long whoever leads may take to say that it is there."""

PIECE = 256 << 10
"""Bytes of a delta that are asked for at once."""

CARRIER = "streams"
"""The socket here at which a leader's door is reached."""


class DoorClosed(UnavailableError):
    """The streams of a replica cannot be reached."""


class SurrogateNotTrusted(AccessError):
    """The surrogate may not run carried services."""

    def __init__(self, surrogate: str, service: str) -> None:
        super().__init__(
            f"{service} cannot be carried to {surrogate}",
            why="no replica checks a carried service's answers, so its surrogate must be trusted",
            fix=f"if you trust it: `trusted = true` in [surrogates.{surrogate}] of client.toml",
        )


@dataclass(frozen=True)
class OfferedDelta:
    """A delta: the tables that it leads to, and its bytes if the machine is held meanwhile."""

    tables: Mapping[str, TableRoot]
    offer: DeltaOffer
    data: bytes | None


class Place(Protocol):
    """A replica that leads, or is about to. Every call may raise what its link raises."""

    name: str
    link: Link

    def delta(self, since: Mapping[str, TableRoot], *, hold: bool = False) -> OfferedDelta:
        """Freeze it, and have the delta since an earlier freeze."""

    def fetch(self, offered: OfferedDelta) -> bytes:
        """The bytes of its newest delta."""

    def go_on(self) -> None:
        """The end of hold."""

    def carrier(self) -> socket.socket:
        """A connection to its streams. Raises DoorClosed."""

    def lives(self) -> bool | None:
        """Whether it can go on, as it says; None where it says nothing."""

    def end(self) -> bool:
        """End it; whether that is known to have happened. Never fails."""


class AtRest:
    """A machine that nobody runs: a state on the medium, without home in reach. It leads until a
    surrogate does, and answers nothing."""

    name = "medium"

    def __init__(self, home: HomeService) -> None:
        self.link = home.link

    def delta(self, since: Mapping[str, TableRoot], *, hold: bool = False) -> OfferedDelta:
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


class _Leader:
    """What both kinds have in common. path: of the replica, in its daemon's API"""

    def __init__(self, name: str, link: Link, path: str) -> None:
        self.name = name
        self.link = link
        self.path = path
        self._door: Path | None = None

    def delta(self, since: Mapping[str, TableRoot], *, hold: bool = False) -> OfferedDelta:
        return self._ask(since, {"hold": hold})

    def _ask(self, since: Mapping[str, TableRoot], more: dict[str, Any]) -> OfferedDelta:
        body = {"since": {name: root.to_json() for name, root in since.items()}} | more
        answer = self.link.http.post_json(f"{self.path}/delta", body, timeout=DELTA_SECONDS)
        offer = DeltaOffer.from_json(answer)
        try:
            data = base64.b64decode(offer.content, validate=True) if offer.content else None
        except ValueError as error:  # also what is not ASCII, which is no binascii.Error
            raise IntegrityError(f"{self.name} sent no delta", why=str(error)) from error
        return OfferedDelta(tables_of(offer.volumes), offer, data)

    def fetch(self, offered: OfferedDelta) -> bytes:
        data = bytearray()
        while len(data) < offered.offer.size:
            asked = urlencode({"offset": len(data), "length": PIECE})
            path = f"{self.path}/delta/{offered.offer.digest}?{asked}"
            piece = self.link.http.get_bytes(path, limit=PIECE)
            if not piece:
                raise IntegrityError(f"{self.name} sent no whole delta")
            data += piece
        return bytes(data)

    def go_on(self) -> None:
        self.link.http.post_json(f"{self.path}/go-on", {})

    def look_for_door(self) -> None:
        """Have the way to its streams, before somebody waits for that. Raises DoorClosed."""
        if self._door is None:
            self.link.http.get_json(f"{self.path}/streams")
            self._door = self.link.reach(f"streams/{PurePosixPath(self.path).name}")

    def carrier(self) -> socket.socket:
        self.look_for_door()
        assert self._door is not None
        carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            carrier.connect(bytes(self._door))
        except OSError as error:
            carrier.close()
            raise DoorClosed(f"cannot reach the streams at {self.name}", why=str(error)) from error
        return carrier


class AtHome(_Leader):
    """Home's replica."""

    def __init__(self, home: HomeService) -> None:
        super().__init__(HOME, home.link, f"/v1/services/{home.service}")

    def lives(self) -> bool | None:
        try:
            self.link.http.get_json(f"{self.path}/streams", timeout=SIGN_SECONDS)
        except UnavailableError:
            return None
        except SatchelError:
            return False
        return True

    def end(self) -> bool:
        with contextlib.suppress(SatchelError):
            self.link.http.post_json(f"{self.path}/stop", {})
            return True
        return False


class AtSurrogate(_Leader):
    """A replica at a surrogate."""

    def __init__(self, endpoint: SurrogateEndpoint, link: Link) -> None:
        super().__init__(endpoint.name, link, f"/v1/replicas/{endpoint.replica}")
        self.endpoint = endpoint

    def hand_over(self) -> HandoverState:
        """A first freeze, for a move."""
        return self.endpoint.hand_over()

    def delta_to(self, since: Mapping[str, TableRoot], frozen: Manifest) -> OfferedDelta:
        """The delta from one freeze of this replica to another one; it is not frozen for that."""
        at = {name: root.to_json() for name, root in frozen.volumes.items()}
        at["device_state"] = frozen.device_state.to_json()
        return self._ask(since, {"at": at})

    def more(self, data: bytes, *, go: bool = False) -> ReplicaStatus:
        """A delta for one that stands by; `go`: its last one, returns when it runs."""
        path, seconds = f"{self.path}/more", GO_SECONDS if go else DELTA_SECONDS
        answer = self.link.http.post_bytes(f"{path}?go=1" if go else path, data, timeout=seconds)
        return ReplicaStatus.from_bytes(answer)

    def lives(self) -> bool | None:
        try:
            status = self.endpoint.status(timeout=SIGN_SECONDS)
        except UnavailableError:
            return None
        except SatchelError:
            return False
        return status.state == "ready"

    def end(self) -> bool:
        with contextlib.suppress(SatchelError):
            self.endpoint.remove()
            return True
        return False
