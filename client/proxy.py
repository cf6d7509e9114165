# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A local port on which an unmodified program (curl, a browser) uses the service."""

from __future__ import annotations

import threading

import flask
from waitress.server import BaseWSGIServer, create_server

from client.session import Session
from replay.adapters import http
from wire import install_errors

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")

MAX_REQUEST_BYTES = 32 << 20


class Proxy:
    """Serves 127.0.0.1:port until closed. Every request is one operation of the session."""

    def __init__(self, session: Session, port: int = 0) -> None:
        """Listen on `port`, or on a free one for 0. Raises OSError when it is taken."""
        self._server = create_server(
            proxy_app(session),
            host="127.0.0.1",
            port=port,
            threads=8,
            max_request_body_size=MAX_REQUEST_BYTES,
            clear_untrusted_proxy_headers=True,
        )
        assert isinstance(self._server, BaseWSGIServer) and self._server.socket
        self.port = int(self._server.socket.getsockname()[1])
        self._thread = threading.Thread(target=self._server.run, name="proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.close()
        self._thread.join(timeout=5.0)


def proxy_app(session: Session) -> flask.Flask:
    """An application that makes every request an operation of `session`.

    The answer carries who answered first and after how long, in X-Satchel-* headers.
    """
    app = flask.Flask("satchel-proxy", static_folder=None)
    install_errors(app)

    @app.route("/", defaults={"path": ""}, methods=METHODS)
    @app.route("/<path:path>", methods=METHODS)
    def operate(path: str) -> flask.Response:
        asked = flask.request
        target = asked.environ["REQUEST_URI"]
        headers, body = list(asked.headers.items()), asked.get_data()
        answer = session.call(
            lambda number, time_ns, seed: http.encode(
                asked.method, target, headers, body, number=number, time_ns=time_ns, seed=seed
            )
        )
        response = http.decode(answer.payload)
        reply = flask.Response(response.body, status=response.status, headers=response.headers)
        reply.headers["X-Satchel-Operation"] = str(answer.number)
        reply.headers["X-Satchel-Leader"] = answer.leader
        reply.headers["X-Satchel-Seconds"] = f"{answer.seconds:.6f}"
        return reply

    return app
