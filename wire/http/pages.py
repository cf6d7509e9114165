# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A daemon's page for a browser on the same machine, live by server-sent events.

GET  /login?token=TOKEN  sets the cookie and leads to the page; the link that the daemon prints
GET  /                   the page, and its files under /page/
GET  /view               what the page shows now: a View
GET  /events             the same, as an event each PAGE_REFRESH_SECONDS; holds a thread of the
server
POST /act/NAME           key: TEXT; what a button does
GET  /desktop            the desktop of a service, by noVNC, whose files are under /novnc/
GET  /desktop/port       port: where its WebSocket is

Any local user and any page in a browser reaches the port. So a request needs the cookie, the page's
own host, and no other site behind it. The files need no cookie: they hold no secret.
A WebSocket needs the cookie as well, and this page behind it. The host is another one in each run
(wire/http/sites.py), so no server at another port gets the cookie.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Generic, TypeVar

import flask

from satchel.errors import AccessError, CapacityError, NotFoundError, SatchelError, UsageError
from wire.errors import ErrorReport
from wire.http.server import Server, bound_json, install_errors, serve_local
from wire.http.sites import refuse_other_pages, refuse_other_sites, unguessable_host
from wire.http.websocket import Header, WebSocketPort

FILES = Path(__file__).with_name("page")

NOVNC = Path("/usr/share/novnc")
"""Where Debian's package has it."""

PAGE_REFRESH_SECONDS = 1.0

VIEWERS = 8
"""Pages that are live at a time: each holds a thread."""

OTHER_THREADS = 4

MAX_BODY = 1 << 16

OPEN = {"login", "static"}
"""Endpoints that need no cookie."""

POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

View = Mapping[str, Any]
"""title: text; sections: a list of objects. A section has a title, and facts (an object), or rows
and columns, perhaps with an action (name, key: a field of a row, label), or maps (name, parts), or
a link (to, label).
A value with used and cap, two numbers, is shown as `used of cap`."""


T = TypeVar("T")


class CachedView(Generic[T]):
    """What a page shows for some seconds before it is looked at again, because that is dear. One
    thread at a time."""

    def __init__(self, look: Callable[[], T], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._seen: T | None = None
        self._seen_at = float("-inf")

    def __call__(self) -> T:
        """Raises what `look` raises."""
        if self._seen is None or time.monotonic() - self._seen_at >= self._seconds:
            self._seen = self._look()
            self._seen_at = time.monotonic()
        return self._seen


class PageLocked(AccessError):
    """The request lacks the cookie that the login link sets."""


class PageBusy(CapacityError):
    """More pages are open than a daemon serves at once."""


class Page:
    """A daemon's page while it is served. Any thread may call `close`.

    host: its name, of this device; link: with which its owner logs in; a person who has it may do
    what the page can
    """

    def __init__(
        self,
        view: Callable[[], View],
        port: int = 0,
        actions: Mapping[str, Callable[[str], object]] | None = None,
        desktop: Callable[[], socket.socket] | None = None,
    ) -> None:
        """view, actions: are called in the server's threads. port: 0 is a free one. desktop:
        connects to a VNC server, whose screen the page shows. Raises what `listen_local` does."""
        self._view, self._actions = view, actions or {}
        self._token, self._cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.host = unguessable_host()
        self._viewers = threading.BoundedSemaphore(VIEWERS)
        self._closing = threading.Event()
        self._looking = threading.Lock()  # guards the one below
        self._shown_last = CachedView(self._look, PAGE_REFRESH_SECONDS)
        self._sockets: WebSocketPort | None = None
        self._server: Server = serve_local(
            self._app(), port, threads=VIEWERS + OTHER_THREADS, max_body=MAX_BODY
        )
        self.port = self._server.port
        self.link = f"http://{self.host}:{self.port}/login?token={self._token}"
        if desktop:
            self._sockets = WebSocketPort(self._admit_socket, desktop)

    def close(self) -> None:
        """Serve no more."""
        self._closing.set()
        if self._sockets:
            self._sockets.close()
        self._server.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _app(self) -> flask.Flask:
        app = flask.Flask("satchel-page", static_folder=str(FILES), static_url_path="/page")
        install_errors(app)
        bound_json(app)
        app.before_request(self._admit)
        app.after_request(self._protect)
        app.add_url_rule("/login", "login", self._login)
        app.add_url_rule("/", "index", lambda: flask.send_from_directory(FILES, "index.html"))
        app.add_url_rule("/view", "view", lambda: flask.jsonify(self._shown()))
        app.add_url_rule("/events", "events", self._events)
        app.add_url_rule("/act/<name>", "act", self._act, methods=["POST"])
        app.add_url_rule("/desktop", "desktop", self._desktop)
        app.add_url_rule("/desktop/port", "port", lambda: flask.jsonify(port=self._socket_port()))
        app.add_url_rule("/novnc/<path:name>", "novnc", self._novnc)
        return app

    def _admit(self) -> None:
        request = flask.request
        refuse_other_sites(self.port, request.method, request.headers.get, (self.host,))
        if request.endpoint in OPEN:
            return
        self._require_cookie(request.cookies.get(self._cookie_name, ""))

    def _admit_socket(self, port: int, header: Header) -> None:
        refuse_other_pages(port, self.port, self.host, header)
        try:
            sent = SimpleCookie(header("Cookie") or "").get(self._cookie_name)
        except CookieError:
            sent = None
        self._require_cookie(sent.value if sent else "")

    def _require_cookie(self, sent: str) -> None:
        if not hmac.compare_digest(sent.encode("utf-8", "replace"), self._cookie.encode()):
            raise PageLocked("this page is its owner's", fix="use the link that the daemon printed")

    @property
    def _cookie_name(self) -> str:
        return f"satchel-{self.port}"  # browsers keep one jar for all ports of a host

    def _login(self) -> flask.Response:
        sent = flask.request.args.get("token", "").encode("utf-8", "replace")
        if not hmac.compare_digest(sent, self._token.encode()):
            raise PageLocked("this link is not valid", fix="use the link that the daemon printed")
        answer = flask.make_response(flask.redirect("/"))
        answer.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="Strict")
        return answer

    def _events(self) -> flask.Response:
        if not self._viewers.acquire(blocking=False):
            raise PageBusy(f"{VIEWERS} pages are open already", fix="close one of them")
        answer = flask.Response(self._told(), mimetype="text/event-stream")
        answer.call_on_close(self._viewers.release)  # also where nothing was sent
        return answer

    def _told(self) -> Iterator[bytes]:
        while not self._closing.is_set():
            began = time.monotonic()
            yield b"data: " + json.dumps(self._shown()).encode() + b"\n\n"
            self._closing.wait(max(PAGE_REFRESH_SECONDS, time.monotonic() - began))

    def _shown(self) -> View:
        """The view, or why there is none just now. All viewers share a look."""
        with self._looking:
            return self._shown_last()

    def _look(self) -> View:
        try:
            view = self._view()
        except SatchelError as error:
            return {"error": ErrorReport.of(error).what}
        if self._sockets is None:
            return view
        return {**view, "sections": [_desktop_section(), *view["sections"]]}

    def _desktop(self) -> flask.Response:
        self._socket_port()
        if not _has_novnc():
            raise NotFoundError("noVNC is not on this machine", fix=NOVNC_FIX)
        return flask.send_from_directory(FILES, "desktop.html")

    def _socket_port(self) -> int:
        if self._sockets is None:
            raise NotFoundError("this page has no desktop", why="the service shows none")
        return self._sockets.port

    def _novnc(self, name: str) -> flask.Response:
        self._socket_port()
        return flask.send_from_directory(NOVNC, name)

    def _act(self, name: str) -> Any:
        body = flask.request.get_json(silent=True)
        key = body.get("key") if isinstance(body, dict) else None
        if not isinstance(key, str):
            raise UsageError("an action needs a JSON object with key: str")
        if name not in self._actions:
            raise NotFoundError(f"this page has no action {name[:80]}")
        self._actions[name](key)
        return {}

    def _protect(self, answer: flask.Response) -> flask.Response:
        answer.headers.update(HEADERS)
        answer.headers["Content-Security-Policy"] = self._policy()
        return answer

    def _policy(self) -> str:
        """Return what a page's scripts may load. noVNC makes pictures of what it is sent. Who asks
        by another name is not told the host."""
        asked = flask.request.headers.get("Host", "").lower()
        if self._sockets is None or asked != f"{self.host}:{self.port}":
            return POLICY
        place = f"ws://{self.host}:{self._sockets.port}"
        return f"{POLICY}; connect-src 'self' {place}; img-src 'self' data:"


NOVNC_FIX = "apt install novnc, then load this page again"


def _has_novnc() -> bool:
    return (NOVNC / "core" / "rfb.js").is_file()


def _desktop_section() -> dict[str, Any]:
    if _has_novnc():
        return {"title": "Desktop", "link": {"to": "/desktop", "label": "Show it in this browser"}}
    return {"title": "Desktop", "facts": {"noVNC": f"is missing: {NOVNC_FIX}"}}
