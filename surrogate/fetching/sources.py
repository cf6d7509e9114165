# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The sources of chunks that a surrogate has.

- a socket: what a client forwarded (its media, home through it), or the chunks of a peer surrogate
- a medium: plugged into the surrogate itself, and read by a process that can do nothing else
- a store: this host's own

All of them are given references or places and give records; what comes is verified by whoever
asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from chunkstore import PageRange, Store, encode_places, records_below
from media import ConfinedMedium, media_uuid
from satchel.errors import NotFoundError, SatchelError, StateError, UnavailableError
from surrogate.fetching import Prior
from wire import ChunkClient, HttpClient, PeerTimeout, PeerUnreachable, Priority, ReceiveRate

FORWARDED = Prior(round_trip=0.005, rate=2e6)
PEER = Prior(round_trip=0.002, rate=10e6, hits=0.3)
PLUGGED = Prior(round_trip=0.001, rate=20e6, hits=0.5)
OWN = Prior(round_trip=0.0002, rate=200e6, hits=0.5)


class SocketSource:
    """A source behind a Unix socket.

    When a client has walked to another network, its next connection puts another forward at that
    socket, and connections through the old one are silent for ever. They are cut when the new one
    is seen, and what was asked through them is asked again. Where a source is silent otherwise, its
    connections are not used again either.
    """

    def __init__(
        self,
        name: str,
        socket: Path,
        prior: Prior = FORWARDED,
        arrivals: ReceiveRate | None = None,
    ) -> None:
        """arrivals: of all sources that share a way with it"""
        self.name = name
        self.prior = prior
        self._socket = socket
        self._arrivals = arrivals or ReceiveRate()
        self._lock = threading.Lock()
        self._reach()
        self._forward = _identity(socket)
        self._closed = False
        self._goes_below = True

    def fetch(self, refs: bytes, priority: Priority, silence: float) -> bytes:
        """Raises UnavailableError, also when nothing came for `silence` seconds."""
        return self._ask(lambda c: c.fetch(refs, priority, timeout=silence))

    def below(self, places: Sequence[PageRange], priority: Priority, silence: float) -> bytes:
        """As `fetch`. A peer that knows no such request is asked for the pages alone."""
        if self._goes_below:
            try:
                body = encode_places(places)
                return self._ask(lambda c: c.below(body, priority, timeout=silence))
            except NotFoundError:
                self._goes_below = False
        return self.fetch(b"".join(place.page for place in places), priority, silence)

    def close(self) -> None:
        """Close its connections, those in use as soon as they are not."""
        with self._lock:
            self._closed = True
            self._http.close()

    def renewed(self) -> bool:
        """Looks whether another forward is there since the last time."""
        there = _identity(self._socket)
        if there in (None, self._forward):
            return False
        with self._lock:
            if there == self._forward or self._closed:
                return False
            self._forward, old = there, self._http
            self._arrivals.restart()
            self._reach()
        old.cut()
        return True

    def _reach(self) -> None:
        """By new connections from here on."""
        self._http = HttpClient(self._socket, peer=self.name)
        self._chunks = ChunkClient(self._http, self._arrivals)

    def _ask(self, ask: Callable[[ChunkClient], bytes]) -> bytes:
        while True:
            http, chunks = self._http, self._chunks
            try:
                return ask(chunks)
            except PeerTimeout:
                self._give_up(http)
                raise
            except (PeerUnreachable, StateError):
                if self._closed or http is self._http:
                    raise

    def _give_up(self, http: HttpClient) -> None:
        with self._lock:
            if http is self._http and not self._closed:
                self._reach()
                http.close()


def forwarded(places: Iterable[tuple[str, Path]]) -> list[SocketSource]:
    """What one client forwards: sources by name and socket, the nearest first. All come the way
    from that client."""
    arrivals = ReceiveRate()
    return [SocketSource(name, socket, arrivals=arrivals) for name, socket in places]


def _identity(socket: Path) -> tuple[int, int, int] | None:
    """Of what is at that path: another number after it was made anew. A number of a file alone may
    be given again. None where nothing is."""
    try:
        found = socket.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


class MediaSource:
    """A medium that is plugged in here."""

    prior = PLUGGED

    def __init__(self, root: Path) -> None:
        """Raises as ConfinedMedium.reading does."""
        self.name = f"media-{media_uuid(root).partition('-')[0]}"
        self._media = ConfinedMedium.reading(root)
        try:
            self.chunks = self._media.chunks()
        except BaseException:
            self.close()
            raise

    def fetch(self, refs: bytes, priority: Priority, silence: float) -> bytes:
        """Raises UnavailableError, also when nothing came for `silence` seconds."""
        try:
            return self._media.records(refs, silence)[0]
        except SatchelError as error:
            raise UnavailableError(f"{self.name} gives nothing", why=str(error)) from error

    def below(self, places: Sequence[PageRange], priority: Priority, silence: float) -> bytes:
        """As `fetch`."""
        return records_below(lambda refs: self.fetch(refs, priority, silence), places)

    def renewed(self) -> bool:
        return False

    def close(self) -> None:
        self._media.close()


class StoreSource:
    """A store of this host; somebody else's to close."""

    prior = OWN

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self._store = store

    def fetch(self, refs: bytes, priority: Priority, silence: float) -> bytes:
        return self._store.records(refs)

    def below(self, places: Sequence[PageRange], priority: Priority, silence: float) -> bytes:
        return records_below(self._store.records, places)

    def renewed(self) -> bool:
        return False

    def close(self) -> None:
        """The store stays."""
