# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks over HTTP, a few requests at a time: of the cache, of a tenant, of a medium."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Flask

from chunkstore import answering_places
from wire import PrioritySemaphore, bound_json, chunk_routes, install_errors

READERS = 4
"""How many requests for chunks are answered at once."""

Answer = Callable[[bytes], bytes]


def chunks_of(records: Answer, below: Answer | None = None, readers: int = READERS) -> Blueprint:
    """The routes of chunks. records: pack records of references; below: of places, by default found
    by the same; readers: requests at once."""
    turnstile = PrioritySemaphore(readers)
    return chunk_routes(
        turnstile.in_turn(records), turnstile.in_turn(below or answering_places(records))
    )


def chunk_app(name: str, records: Answer) -> Flask:
    """Chunks for those who name them whole, and nothing else."""
    app = Flask(name, static_folder=None)
    install_errors(app)
    bound_json(app)
    app.register_blueprint(chunks_of(records))
    return app
