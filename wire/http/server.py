# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A WSGI application on a Unix socket, served by waitress: one IO thread and N worker threads.

The IO thread reads whole requests (bodies over 512 KB go to a temporary file) and writes answers,
so a slow peer holds a connection but no worker. A worker is held while the application runs: an
operation of minutes holds one of N. A generator's answer is streamed; when the client goes away,
the generator is closed.

Nothing authenticates here: the socket has mode 0600 and ssh decides who reaches it from elsewhere.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flask
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ThreadedTaskDispatcher
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from satchel.errors import SatchelError, UsageError
from wire.errors import ErrorReport, code_of_status
from wire.http.intake import Bodies, Intake
from wire.ports.listening import listen_local, listen_unix

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

MEMORY_LIMIT = 18 << 20
"""Bytes of an answer kept in memory until its reader takes them: a batch of chunks. A larger whole
answer waits in a temporary file."""

STREAM_LIMIT = 2 << 20
"""Bytes of a streamed answer that wait for their reader; with more its generator waits."""

JSON_BODY_LIMIT = 1 << 20
"""Bytes of a request in JSON. Parsed, some JSON takes 25 times its size."""

SLOW_CHECK_SECONDS = 5.0
"""How often it is looked for requests that come too slowly."""

OWN_DISPATCHERS = 2
"""What waitress counts as connections besides: the listener and its trigger."""

UNBOUNDED = Intake()

IDLE_SECONDS = 180
"""A connection without a request is closed after this long. More than the client's 60 s."""


class Server:
    """An application that is being served. Made by `serve` and `serve_local`. Any thread may call
    `close`.

    path: of the Unix socket; of a port, a name for messages only
    """

    def __init__(
        self,
        app: WSGIApplication,
        listener: socket.socket,
        path: Path,
        *,
        threads: int,
        max_body: int,
        intake: Intake = UNBOUNDED,
    ):
        self.path = path
        self._bodies = Bodies(intake)
        self._rest = intake.rest or (lambda used: None)
        self._inode = _inode(path)
        self._closing = threading.Event()
        self._close_lock = threading.Lock()
        self._deadline = 0.0
        self._map: dict[int, Any] = {}  # waitress's dispatchers by descriptor
        self._workers = ThreadedTaskDispatcher()
        self._workers.set_thread_count(threads)
        create_server(
            app,
            map=self._map,
            _dispatcher=self._workers,
            sockets=[listener],
            max_request_body_size=max_body + 1,  # waitress refuses this much
            max_request_header_size=65536,
            connection_limit=intake.connections + OWN_DISPATCHERS,
            recv_bytes=1 << 17,
            outbuf_overflow=MEMORY_LIMIT,
            outbuf_high_watermark=STREAM_LIMIT,
            channel_timeout=IDLE_SECONDS,
            channel_request_lookahead=1,
            asyncore_use_poll=True,
            ident="satchel",
            log_socket_errors=False,
        )
        servers = [d for d in self._map.values() if isinstance(d, BaseWSGIServer)]
        self._listener: Any = servers[0]
        self._listener.channel_class = self._bodies.channel_class()
        self._io = threading.Thread(target=self._run, name=f"http {path.name}", daemon=True)
        self._io.start()

    def close(self, grace: float = 5.0) -> None:
        """Stop: the socket goes at once, running requests get `grace` seconds to be answered, then
        every connection is cut. Returns when the threads have ended.

        A request that runs on after `grace` and 2 s more is named in the log and left to a daemon
        thread; nobody will see its answer.
        """
        with self._close_lock:
            if not self._closing.is_set():
                self._deadline = time.monotonic() + grace
                self._closing.set()
                self._listener.pull_trigger()
            self._io.join()
            if self._map:
                self._end()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._channels())

    @property
    def port(self) -> int:
        """The port on 127.0.0.1 of a server that `serve_local` made."""
        return int(self._listener.socket.getsockname()[1])

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        looked, used = time.monotonic(), time.thread_time()
        while not self._closing.is_set():
            wasyncore.loop(timeout=SLOW_CHECK_SECONDS, use_poll=True, map=self._map, count=1)
            before, used = used, time.thread_time()
            self._rest(used - before)
            if (now := time.monotonic()) - looked > SLOW_CHECK_SECONDS:
                looked = now
                self._give_up_overdue(now)
        wasyncore.dispatcher.close(self._listener)
        if self._inode and _inode(self.path) == self._inode:
            self.path.unlink(missing_ok=True)
        while self._busy() and time.monotonic() < self._deadline:
            wasyncore.loop(timeout=0.05, use_poll=True, map=self._map, count=1)
        for channel in self._channels():
            channel.handle_close()

    def _give_up_overdue(self, now: float) -> None:
        for channel in self._channels():
            if self._bodies.overdue(channel, now):
                log.info("%s: a request comes too slowly, its connection is cut", self.path)
                channel.handle_close()

    def _end(self) -> None:
        self._workers.shutdown(timeout=2)
        if self._workers.threads:
            log.error("%s: %d requests run on", self.path, len(self._workers.threads))
            return  # they may still write to the trigger's descriptor: it stays open
        self._listener.trigger.close()
        self._map.clear()

    def _channels(self) -> list[HTTPChannel]:
        return [d for d in list(self._map.values()) if isinstance(d, HTTPChannel)]

    def _busy(self) -> bool:
        return any(channel.requests or channel.total_outbufs_len for channel in self._channels())


def serve(
    app: WSGIApplication,
    socket_path: Path,
    *,
    threads: int,
    max_body: int,
    intake: Intake = UNBOUNDED,
) -> Server:
    """Serve `app` on a Unix socket of mode 0600 until `Server.close`.

    threads: requests that run at a time. max_body: bytes; a larger request is answered with 413
    before its body is read. intake: what is taken of all requests together. A stale socket, one
    that nobody answers at, is replaced; raises what `listen_unix` does.
    """
    listener = listen_unix(socket_path)
    try:
        return Server(app, listener, socket_path, threads=threads, max_body=max_body, intake=intake)
    except BaseException:
        listener.close()
        raise


def serve_local(app: WSGIApplication, port: int, *, threads: int, max_body: int) -> Server:
    """Serve `app` on 127.0.0.1:`port` (0: a free one, see Server.port) until `Server.close`.

    Any local user and any web page in a browser here reaches it: the application sees to what it
    lets them do. threads, max_body: as for `serve`. Raises what `listen_local` does.
    """
    listener = listen_local(port)
    try:
        return Server(app, listener, Path(f"127.0.0.1:{port}"), threads=threads, max_body=max_body)
    except BaseException:
        listener.close()
        raise


def streamed(pieces: Iterator[bytes]) -> flask.Response:
    """An answer of bytes that is sent as it comes. What the first piece raises is answered as any
    error is. A SatchelError after that ends the answer: it is good as far as it goes, and whoever
    asks again from there is told."""
    first = next(pieces, b"")

    def all_of_them() -> Iterator[bytes]:
        yield first
        try:
            yield from pieces
        except SatchelError as error:
            log.info("an answer ends early: %s", error)

    return flask.Response(all_of_them(), mimetype="application/octet-stream")


def bound_json(app: flask.Flask) -> None:
    """A request in JSON with more than JSON_BODY_LIMIT bytes is answered with 413, unparsed."""

    @app.before_request
    def refuse_large() -> None:
        if flask.request.is_json and (flask.request.content_length or 0) > JSON_BODY_LIMIT:
            raise RequestEntityTooLarge(f"JSON may have {JSON_BODY_LIMIT} bytes")


def install_errors(app: flask.Flask) -> None:
    """Every error of `app` is answered as JSON {"code","what","why","fix"} with its status.

    A SatchelError is answered by its root; an HTTP error of Flask keeps its status; anything else
    is 500 "internal", and its traceback goes to the log only.
    """
    app.register_error_handler(SatchelError, _answer_error)
    app.register_error_handler(HTTPException, _answer_http_error)
    app.register_error_handler(RecursionError, _answer_too_deep)
    app.register_error_handler(Exception, _answer_unexpected)


def _answer_error(error: SatchelError) -> tuple[flask.Response, int]:
    log.info("%s %s: %s", flask.request.method, flask.request.path, error)
    report = ErrorReport.of(error)
    return flask.jsonify(report.to_json()), report.status


def _answer_http_error(error: HTTPException) -> tuple[flask.Response, int]:
    status = error.code or 500
    what = f"{flask.request.method} {flask.request.path}: {error.name.lower()}"
    report = ErrorReport(code_of_status(status), what, error.description or "", "")
    return flask.jsonify(report.to_json()), status


def _answer_too_deep(error: RecursionError) -> tuple[flask.Response, int]:
    """Answer a request whose JSON is nested deeper than the parser can go."""
    return _answer_error(UsageError("the JSON is nested too deeply", why=str(error)))


def _answer_unexpected(error: Exception) -> tuple[flask.Response, int]:
    log.error("%s %s failed", flask.request.method, flask.request.path, exc_info=error)
    what = f"{flask.request.method} {flask.request.path} failed unexpectedly"
    report = ErrorReport("internal", what, type(error).__name__, "the log there has the traceback")
    return flask.jsonify(report.to_json()), report.status


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
