# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks of the media and of home, offered to a surrogate over forwarded sockets.

What a surrogate can reach is these routes and nothing else: no log, no manifest, no API of home.
A chunk is given only to who knows its SHA-256, so a surrogate learns no other service's memory.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask

from wire import chunk_routes, install_errors

Provider = Callable[[bytes], bytes]
"""From references to pack records."""


def source_app(provider: Provider) -> Flask:
    """An application that answers chunk requests from `provider`, and no other."""
    app = Flask("satchel-source")
    install_errors(app)
    app.register_blueprint(chunk_routes(provider))
    return app
