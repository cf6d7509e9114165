# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks of the medium and of home, offered to a surrogate through its door.

What a surrogate can reach is these routes and nothing else: no log, no manifest, no API of home.
A chunk is given only to who knows its SHA-256, so a surrogate learns no other service's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from flask import Flask

from chunkstore import answering_places
from client.platform.activity_gate import ActivityGate
from client.platform.settings import HOME, ClientSettings
from client.platform.shaper import PathRate
from wire import (
    ChunkClient,
    Lane,
    Link,
    Links,
    PeerUnreachable,
    PrioritySemaphore,
    SourceAddress,
    chunk_routes,
    install_errors,
    requested_priority,
    requested_rate,
)

Provider = Callable[[bytes], bytes]
"""From references, or places, to pack records."""


class ChunkReader(Protocol):
    """A place that has chunks."""

    def records(self, refs: bytes) -> bytes: ...


class MediaChunks(ChunkReader, Protocol):
    """The chunks on all media of a session. False: there is no medium now."""

    def __bool__(self) -> bool: ...


MEDIA_READERS = 2
"""Requests that read a medium at once. More only make it seek."""

RELAY_SECONDS = 2.0
"""How long a request for home waits for a connection that is being made."""


class Sources:
    """What one session offers to surrogates. Thread-safe."""

    def __init__(
        self,
        settings: ClientSettings,
        links: Links,
        media: MediaChunks,
        operations: ActivityGate,
    ) -> None:
        """operations: of the session, which go first on the way from this client"""
        self._settings = settings
        self._links = links
        self._media = media
        self._operations = operations

    def offer(
        self, link: Link, *, use_media: bool = True, giver: str = ""
    ) -> tuple[SourceAddress, ...]:
        """Offer them to the surrogate at the other end of a link, the nearest first. Home is one
        of them even while it cannot be reached: the surrogate asks again.

        giver: the surrogate that hands a replica over. Raises StateError without a connection.
        """
        apps: list[tuple[str, Flask]] = []
        way = PathRate()
        if giver:
            bulk = self._links.get(chunks_link(giver), self._settings.surrogate(giver), Lane.BULK)
            bulk.want()
            apps.append((giver, self._relay(bulk, way)))
        if self._media and use_media:
            apps.append(("media", media_app(self._media, self._operations, way)))
        if self._settings.home.destination:
            bulk = self._links.get(chunks_link(HOME), self._settings.home, Lane.BULK)
            apps.append((HOME, self._relay(bulk, way)))
        return tuple(SourceAddress(n, link.offer(n, app)) for n, app in apps)

    def _relay(self, link: Link, way: PathRate) -> Flask:
        home = ChunkClient(link.http)
        return relay_app(home, self._operations, way, lambda: link.stands(RELAY_SECONDS))


def chunks_link(name: str) -> str:
    """The name of the link that carries chunks to or from that host."""
    return f"{name}-chunks"


def media_app(media: ChunkReader, operations: ActivityGate, way: PathRate) -> Flask:
    """An application that answers chunk requests from a medium, and no other requests. way: to who
    asks, that learns from them how fast it is."""
    turnstile = PrioritySemaphore(MEDIA_READERS)
    return _app(
        turnstile.in_turn(media.records),
        turnstile.in_turn(answering_places(media.records)),
        operations,
        way,
    )


def relay_app(
    home: ChunkClient,
    operations: ActivityGate,
    way: PathRate,
    stands: Callable[[], bool] = lambda: False,
) -> Flask:
    """An application that hands chunk requests on to home, as urgent as they came. stands: whether
    home is reached now; then it is asked again where there was no answer, because a source without
    an answer is left alone for a while."""

    def again(ask: Callable[[], bytes]) -> bytes:
        try:
            return ask()
        except PeerUnreachable:
            if not stands():
                raise
        return ask()

    return _app(
        lambda refs: again(lambda: home.fetch(refs, requested_priority())),
        lambda places: again(lambda: home.below(places, requested_priority())),
        operations,
        way,
    )


def _app(provider: Provider, below: Provider, operations: ActivityGate, way: PathRate) -> Flask:
    app = Flask("satchel-source")
    install_errors(app)

    @app.before_request
    def note_rate() -> None:
        """Also of what comes from home: it is all here before it goes on."""
        way.arrives(requested_rate())

    def after_operations(answer: Provider) -> Provider:
        def provide(body: bytes) -> bytes:
            operations.give_way(requested_priority())
            return answer(body)

        return provide

    pieces = partial(operations.pieces, way)
    routes = chunk_routes(after_operations(provider), after_operations(below), pieces)
    app.register_blueprint(routes)
    return app
