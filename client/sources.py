# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks of the media and of home, offered to a surrogate over forwarded sockets.

What a surrogate can reach is these routes and nothing else: no log, no manifest, no API of home.
A chunk is given only to who knows its SHA-256, so a surrogate learns no other service's memory.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask

from chunkstore import Media, answering_places
from client.foreground import Foreground
from wire import ChunkClient, Turnstile, chunk_routes, install_errors, requested_priority

Provider = Callable[[bytes], bytes]
"""From references, or places, to pack records."""


MEDIA_READERS = 2
"""Requests that read a medium at once. More only make it seek."""


def media_app(media: Media, operations: Foreground) -> Flask:
    """An application that answers chunk requests from a medium, and no other requests."""
    turnstile = Turnstile(MEDIA_READERS)
    return _app(
        turnstile.in_turn(media.records),
        turnstile.in_turn(answering_places(media.records)),
        operations,
    )


def relay_app(home: ChunkClient, operations: Foreground) -> Flask:
    """An application that hands chunk requests on to home, as urgent as they came."""
    return _app(
        lambda refs: home.fetch(refs, requested_priority()),
        lambda places: home.below(places, requested_priority()),
        operations,
    )


def _app(provider: Provider, below: Provider, operations: Foreground) -> Flask:
    app = Flask("satchel-source")
    install_errors(app)

    def after_operations(answer: Provider) -> Provider:
        def provide(body: bytes) -> bytes:
            operations.give_way(requested_priority())
            return answer(body)

        return provide

    app.register_blueprint(chunk_routes(after_operations(provider), after_operations(below)))
    return app
