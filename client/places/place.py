# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A machine of a service, at home or at a surrogate: HTTP over a link that may break.

A request that gets no answer makes its link connect again at once, beside the link's own watcher.
"""

from __future__ import annotations

import base64
import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import urlencode

from replay import MAX_PAYLOAD, Operation, decode_piece
from satchel.errors import IntegrityError, SatchelError, UnavailableError
from satchel.ids import OperationNumber
from wire import DeltaOffer, Link

if TYPE_CHECKING:
    from chunkstore import TableRoot
    from images import Manifest

DELTA_SECONDS = 300.0
"""How long a freeze may take, with the pages that it needs."""

SIGN_SECONDS = 3.0
"""How long a place may take to say that its machine is there."""

FORGET_SECONDS = 10.0
"""How long a host may take to discard an answer."""

PIECE = 256 << 10
"""Bytes of a delta that are asked for at once."""

Wish = Literal["", "early", "long"]
"""Notices wanted before a response: early answers, or the beginning of a long one."""


class DoorClosed(UnavailableError):
    """The streams of a replica cannot be reached."""


@dataclass(frozen=True)
class OfferedDelta:
    """A delta: the tables that it leads to, and its bytes if the machine is held meanwhile."""

    tables: Mapping[str, TableRoot]
    offer: DeltaOffer
    data: bytes | None


class Place:
    """The common part of home and surrogates. Every call may raise errors of its link. path: of the
    machine, in their APIs"""

    def __init__(self, name: str, link: Link, path: str) -> None:
        self.name = name
        self.link = link
        self.path = path
        self._door: Path | None = None

    def ask(self, path: str, timeout: float) -> Any:
        """The answer at that path below its machine's, unverified."""
        return self.link.http.get_json(f"{self.path}/{path}", timeout=timeout)

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        """Of a long answer; see client.session.long_answer."""
        path = f"{self.path}/operations/{number}/answer?after={after}&length={length}"
        return decode_piece(self.link.http.get_bytes(path, limit=length + 1))

    def forget(self, number: OperationNumber) -> None:
        """Discard the rest of a long answer. Never fails."""
        with contextlib.suppress(SatchelError):
            path = f"{self.path}/operations/{number}/answer"
            self.link.http.delete(path, timeout=FORGET_SECONDS)

    def delta(self, since: Mapping[str, TableRoot], *, hold: bool = False) -> OfferedDelta:
        """Freeze it, and have the delta since an earlier freeze."""
        return self._freeze(since, {"hold": hold})

    def _freeze(self, since: Mapping[str, TableRoot], more: dict[str, Any]) -> OfferedDelta:
        body = {"since": {name: root.to_json() for name, root in since.items()}} | more
        answer = self.link.http.post_json(f"{self.path}/delta", body, timeout=DELTA_SECONDS)
        from replica import tables_of  # which needs what only machines need

        offer = DeltaOffer.from_json(answer)
        try:
            data = base64.b64decode(offer.content, validate=True) if offer.content else None
        except ValueError as error:  # also what is not ASCII, which is no binascii.Error
            raise IntegrityError(f"{self.name} sent no delta", why=str(error)) from error
        return OfferedDelta(tables_of(offer.volumes), offer, data)

    def delta_to(self, since: Mapping[str, TableRoot], frozen: Manifest) -> OfferedDelta:
        """The delta from one freeze of its machine to another one; it is not frozen for that."""
        at = {name: root.to_json() for name, root in frozen.volumes.items()}
        at["device_state"] = frozen.device_state.to_json()
        return self._freeze(since, {"at": at})

    def fetch(self, offered: OfferedDelta) -> bytes:
        """The bytes of its newest delta."""
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
        """End the hold."""
        self.link.http.post_json(f"{self.path}/go-on", {})

    def look_for_door(self) -> None:
        """Prepare the path to its streams ahead of time. Raises DoorClosed."""
        if self._door is None:
            self.link.http.get_json(f"{self.path}/streams")
            self._door = self.link.reach(f"streams/{PurePosixPath(self.path).name}")

    def carrier(self) -> socket.socket:
        """A connection to its guest's streams. Raises DoorClosed."""
        self.look_for_door()
        assert self._door is not None
        carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            carrier.connect(bytes(self._door))
        except OSError as error:
            carrier.close()
            raise DoorClosed(f"cannot reach the streams at {self.name}", why=str(error)) from error
        return carrier

    def lives(self) -> bool | None:
        """Whether it can continue, by its own report; None without one."""
        try:
            return self._ready()
        except UnavailableError:
            return None
        except SatchelError:
            return False

    def _ready(self) -> bool:
        raise NotImplementedError

    def end(self) -> bool:
        """End it; whether that is known to have happened. Never fails."""
        with contextlib.suppress(SatchelError):
            self.remove()
            return True
        return False

    def remove(self) -> None:
        """End it. Raises SatchelError where that cannot be known to have happened."""
        raise NotImplementedError


class AtRest(Place):
    """A machine that runs nowhere: a state on the medium, without home in reach. It leads until a
    surrogate does, and answers nothing. link: to home"""

    def __init__(self, link: Link) -> None:
        super().__init__("medium", link, "")

    def _rests(self, *_: object, **_how: object) -> NoReturn:
        fix = "`satchel move SERVICE --to SURROGATE`"
        raise DoorClosed("the service runs nowhere", why="home is out of reach", fix=fix)

    ask = delta = delta_to = fetch = carrier = _rests

    def lives(self) -> None:
        return None

    def remove(self) -> None:
        """Nothing is there."""


def wish_of(early: bool, operations: Sequence[Operation]) -> Wish:
    """early: the service tells early answers, and they are wanted. Of several the first ones
    go unread; a long one may be among them all the same."""
    return "long" if not early else "early" if len(operations) == 1 else ""


def answers_limit(count: int) -> int:
    """Bytes that so many operations or responses have at most, with their headers."""
    return count * (MAX_PAYLOAD + 64)
