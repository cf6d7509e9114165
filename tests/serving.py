# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Applications behind the socket that their programs serve them on."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import flask

from wire import HttpClient, serve

MAX_BODY = 80 << 20


@contextlib.contextmanager
def served(app: flask.Flask, folder: Path, *, peer: str = "") -> Iterator[HttpClient]:
    """A client of `app`, whose socket is in that folder meanwhile."""
    with (
        serve(app, folder / "app.sock", threads=4, max_body=MAX_BODY) as server,
        HttpClient(server.path, peer=peer) as client,
    ):
        yield client
