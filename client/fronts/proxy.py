# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A local port on which an unmodified program (curl, a browser) uses the service.

Whatever runs on this device reaches the port, and so does every web page that a browser here shows.
Programs are trusted: they could use `satchel call` as well. Web pages are not:

- A page whose own name was made to point to 127.0.0.1 (DNS rebinding) sends that name as Host:
  refused, only 127.0.0.1, localhost and [::1] with our port are names of this port.
- A page of another site sends its Origin, or Sec-Fetch-Site says so: refused, whatever the method.
  A link from another site may be followed (a navigation with GET), as on any site.

So no other site's script can call the service, and cross-origin sharing (CORS) is not offered.
"""

from __future__ import annotations

import flask

from client.session import Session
from replay.adapters import http
from satchel.errors import AccessError
from wire import Server, install_errors, serve_local

THREADS = 8

MAX_REQUEST_BYTES = 32 << 20

OWN_SITES = (None, "same-origin", "none")
"""What Sec-Fetch-Site says of our own pages and of what the person typed; absent without a
browser."""


class Answered(flask.Response):
    """The service's response, to which nothing is added that it did not say."""

    default_mimetype = None
    automatically_set_content_length = False


class Proxy:
    """Serves 127.0.0.1:port until closed. Every request is one operation of the session."""

    def __init__(self, session: Session, port: int = 0) -> None:
        """Listen on `port`, or on a free one for 0. Raises ConflictError when it is taken."""
        self._server: Server = serve_local(
            proxy_app(session), port, threads=THREADS, max_body=MAX_REQUEST_BYTES
        )
        self.port = self._server.port
        self.url = f"http://127.0.0.1:{self.port}/"

    def close(self) -> None:
        """Listen no more. Requests under way are answered if their operations end soon."""
        self._server.close()


def proxy_app(session: Session) -> flask.Flask:
    """An application that makes every request an operation of `session`.

    The answer carries who answered first and after how long, in X-Satchel-* headers. An answer
    without these is the proxy's own, an error in JSON.
    """
    app = flask.Flask("satchel-proxy", static_folder=None)
    install_errors(app)

    @app.before_request
    def operate() -> flask.Response:
        # Before routing, which would redirect some paths and refuse some methods.
        asked = flask.request
        refuse_other_sites(asked)
        target = asked.environ["REQUEST_URI"]
        headers, body = list(asked.headers.items()), asked.get_data()
        answer = session.call(
            lambda number, time_ns, seed: http.encode(
                asked.method, target, headers, body, number=number, time_ns=time_ns, seed=seed
            )
        )
        response = http.decode(answer.payload)
        reply = Answered(response.body, status=response.status, headers=list(response.headers))
        reply.headers["X-Satchel-Operation"] = str(answer.number)
        reply.headers["X-Satchel-Leader"] = answer.leader
        reply.headers["X-Satchel-Seconds"] = f"{answer.seconds:.6f}"
        reply.headers["X-Satchel-Stable"] = "yes" if answer.stable else "no"
        return reply

    return app


def refuse_other_sites(asked: flask.Request) -> None:
    """Raises AccessError for a request that a page of another site caused; see the module."""
    port = asked.environ["SERVER_PORT"]
    names = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if asked.headers.get("Host", "").lower() not in names:
        raise AccessError(
            f"{asked.headers.get('Host', 'no host')[:80]} is not a name of this port",
            why="a web page may have sent you here",
            fix=f"use http://127.0.0.1:{port}/",
        )
    origin, site = asked.headers.get("Origin"), asked.headers.get("Sec-Fetch-Site")
    followed = asked.method == "GET" and asked.headers.get("Sec-Fetch-Mode") == "navigate"
    foreign = origin is not None and origin.lower() not in {f"http://{name}" for name in names}
    if foreign or (site not in OWN_SITES and not followed):
        raise AccessError(
            "a page of another site may not use this service", why=f"it is {origin or site}"[:200]
        )
