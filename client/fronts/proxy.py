# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A local port on which an unmodified program (curl, a browser) uses the service.

Pages of other sites may not use it: wire/http/sites.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import flask
from werkzeug.exceptions import RequestEntityTooLarge

from client.fronts.origin import CLEAR, BrowserCacheReset, elsewhere, kept_headers
from client.session.answers import Answer
from client.session.long_answer import LongAnswer
from client.session.long_request import upload
from client.session.session import Session
from replay.adapters import http
from satchel.errors import UnsupportedError
from wire import Server, install_errors, refuse_other_sites, serve_local

THREADS = 8

MAX_REQUEST_BYTES = 256 << 20
"""Of a body; a larger one is answered with 413 before it is read. Beyond 512 KiB it waits in a file
until it is whole."""

WHOLE_BYTES = 32 << 20
"""A longer body of a stateful service's request goes in pieces, another one's is refused."""

BLOCK_BYTES = 256 << 10


class ServiceResponse(flask.Response):
    """The service's response, to which nothing is added that it did not say."""

    default_mimetype = None
    automatically_set_content_length = False


class Proxy:
    """Serves 127.0.0.1:port until closed. Every request is one operation of the session."""

    def __init__(self, session: Session, port: int = 0, service: str = "") -> None:
        """Listen on `port`, or on a free one for 0. service: the name of the origin; without one
        browsers are not sent there. Raises ConflictError when the port is taken."""
        self._server: Server = serve_local(
            proxy_app(session, service), port, threads=THREADS, max_body=MAX_REQUEST_BYTES
        )
        self.port = self._server.port
        self.url = f"http://127.0.0.1:{self.port}/"

    def close(self) -> None:
        """Listen no more. Requests under way are answered if their operations end soon."""
        self._server.close()


def proxy_app(session: Session, service: str) -> flask.Flask:
    """An application that makes every request an operation of `session`.

    The answer carries who answered first and after how long, in X-Satchel-* headers. An answer
    without these is the proxy's own, an error in JSON.
    """
    app = flask.Flask("satchel-proxy", static_folder=None)
    install_errors(app)
    clearing = BrowserCacheReset(session)

    @app.before_request
    def operate() -> flask.Response:
        # Before routing, which would redirect some paths and refuse some methods.
        asked, own = flask.request, f"{service}.localhost" if service else "localhost"
        port = int(asked.environ["SERVER_PORT"])
        refuse_other_sites(port, asked.method, asked.headers.get, own)
        names = {name.lower(): value for name, value in asked.headers.items()}
        if service and (url := elsewhere(service, port, names, asked.environ["REQUEST_URI"])):
            return ServiceResponse(
                status=307, headers=[("Location", url), ("Cache-Control", "no-store")]
            )
        _refuse_upgrade(asked.headers.get("Upgrade", ""))
        target = asked.environ["REQUEST_URI"]
        answer = _answer(session, asked, target)
        response = http.decode(answer.long.head() if answer.long else answer.payload)
        worker = names.get("service-worker") == "script"
        kept = kept_headers(session, answer, response, worker=worker)
        reply = ServiceResponse(response.body, status=response.status, headers=kept)
        if answer.long:
            reply.response = _rest(answer.long, response.body)
            reply.call_on_close(answer.long.close)
        if service and "sec-fetch-mode" in names and clearing.due():
            reply.headers["Clear-Site-Data"] = CLEAR
        reply.headers["X-Satchel-Operation"] = str(answer.number)
        reply.headers["X-Satchel-Leader"] = answer.leader
        reply.headers["X-Satchel-Seconds"] = f"{answer.seconds:.6f}"
        reply.headers["X-Satchel-Stable"] = "yes" if answer.stable else "no"
        return reply

    return app


def _answer(session: Session, asked: flask.Request, target: str) -> Answer:
    """Raises RequestEntityTooLarge, and as `Session.call`."""
    method, headers = asked.method, list(asked.headers.items())
    length = asked.content_length or 0
    long = length > WHOLE_BYTES
    if long and not session.stateful:
        raise RequestEntityTooLarge(f"a stateless service takes {WHOLE_BYTES >> 20} MiB at most")
    body = b"" if long else asked.get_data()

    def encode(number: int, time_ns: int, seed: int) -> bytes:
        return http.encode(
            method,
            target,
            headers,
            body,
            number=number,
            time_ns=time_ns,
            seed=seed,
            length=length if long else None,
        )

    if not long:
        return session.call(encode)
    return upload(session, encode, iter(lambda: asked.stream.read(BLOCK_BYTES), b""))


def _rest(answer: LongAnswer, piece: bytes) -> Iterator[bytes]:
    """That piece of a body and what comes behind it. Raises as LongAnswer.read: the connection to
    the program is broken off then."""
    if piece:
        yield piece
    while piece := answer.read():
        yield piece


def _refuse_upgrade(wanted: str) -> None:
    """Raises UnsupportedError for what needs a connection that stays. HTTP/2 is only offered: who
    asks for it goes on with HTTP/1.1."""
    protocols = {one.strip().lower() for one in wanted.split(",")} - {"", "h2c"}
    if protocols:
        raise UnsupportedError(
            f"a replayed service cannot go over to {', '.join(sorted(protocols))[:80]}",
            why="each request is an operation of its own, and no connection stays",
            fix='write contract = "carry" into its recipe',
        )
