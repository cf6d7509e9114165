# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The sources of chunks that a surrogate has.

- a socket: what a client forwarded (its media, home through it), or the chunks of a peer surrogate
- a medium: plugged into the surrogate itself
- a store: this host's own

All of them are given references or places and give records; what comes is verified by whoever
asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chunkstore import Below, Media, Store, encode_places, records_below
from satchel.errors import NotFoundError, StateError
from surrogate.fetching import Prior
from wire import ChunkClient, HttpClient, PeerTimeout, Priority

FORWARDED = Prior(round_trip=0.005, rate=2e6)
PEER = Prior(round_trip=0.002, rate=10e6, hits=0.3)
PLUGGED = Prior(round_trip=0.001, rate=20e6, hits=0.5)
OWN = Prior(round_trip=0.0002, rate=200e6, hits=0.5)


REST_PART = 1 / 3
"""Of the silence that is borne; it is twice what the slowest answer took. After so long without an
answer a connection may be from before a walk, and so long it is waited for."""


class SocketSource:
    """A source behind a Unix socket.

    Where it is silent, its connections are not used again: when a client has walked to another
    network, another forward is at that socket, and those through the old one are silent for ever.
    One that had rested is no fault of the source: it is waited for less, and asked again over a
    new one.
    """

    def __init__(self, name: str, socket: Path, prior: Prior = FORWARDED) -> None:
        self.name = name
        self.prior = prior
        self._socket = socket
        self._lock = threading.Lock()
        self._http = HttpClient(socket, peer=name)
        self._closed = False
        self._goes_below = True
        self._heard = time.monotonic()

    def fetch(self, refs: bytes, priority: Priority, silence: float, rate: float = 0.0) -> bytes:
        """Raises UnavailableError, also when nothing came for `silence` seconds."""
        return self._ask(
            lambda chunks, patience: chunks.fetch(refs, priority, rate=rate, timeout=patience),
            silence,
        )

    def below(
        self, places: Sequence[Below], priority: Priority, silence: float, rate: float = 0.0
    ) -> bytes:
        """As `fetch`. A peer that knows no such request is asked for the pages alone."""
        if self._goes_below:
            try:
                body = encode_places(places)
                return self._ask(
                    lambda chunks, patience: chunks.below(
                        body, priority, rate=rate, timeout=patience
                    ),
                    silence,
                )
            except NotFoundError:
                self._goes_below = False
        return self.fetch(b"".join(place.page for place in places), priority, silence, rate)

    def close(self) -> None:
        """Close its connections, those in use as soon as they are not."""
        with self._lock:
            self._closed = True
            self._http.close()

    def _ask(self, ask: Callable[[ChunkClient, float], bytes], silence: float) -> bytes:
        rest = silence * REST_PART
        rested = time.monotonic() - self._heard > rest
        while True:
            http = self._http
            try:
                answer = ask(ChunkClient(http), rest if rested else silence)
                self._heard = time.monotonic()
                return answer
            except PeerTimeout:
                self._give_up(http)
                if not rested:
                    raise
                rested = False
            except StateError:
                if self._closed or http is self._http:
                    raise

    def _give_up(self, http: HttpClient) -> None:
        with self._lock:
            if http is self._http and not self._closed:
                self._http = HttpClient(self._socket, peer=self.name)
                http.close()


class MediaSource:
    """A medium that this host can read. It owns it."""

    prior = PLUGGED

    def __init__(self, name: str, media: Media) -> None:
        self.name = name
        self._media = media

    def fetch(self, refs: bytes, priority: Priority, silence: float, rate: float = 0.0) -> bytes:
        """Raises MediaGone."""
        return self._media.records(refs)

    def below(
        self, places: Sequence[Below], priority: Priority, silence: float, rate: float = 0.0
    ) -> bytes:
        """Raises MediaGone."""
        return records_below(self._media.records, places)

    def close(self) -> None:
        self._media.close()


class StoreSource:
    """A store of this host; somebody else's to close."""

    prior = OWN

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self._store = store

    def fetch(self, refs: bytes, priority: Priority, silence: float, rate: float = 0.0) -> bytes:
        return self._store.records(refs)

    def below(
        self, places: Sequence[Below], priority: Priority, silence: float, rate: float = 0.0
    ) -> bytes:
        return records_below(self._store.records, places)

    def close(self) -> None:
        """The store stays."""
