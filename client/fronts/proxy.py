# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A local port on which an unmodified program (curl, a browser) uses the service.

Requests are read as they came (wire/http/conversation.py). Pages of other sites may not use it:
wire/http/sites.py.
"""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

from client.fronts.origin import (
    CLEAR,
    BrowserCacheReset,
    ServiceOrigin,
    is_browser,
    is_sandboxed,
    kept_headers,
    require_confirmed,
    runs,
)
from client.session.answers import Answer
from client.session.long_answer import LongAnswer
from client.session.long_request import upload
from client.session.session import Session
from replay.adapters import http
from satchel.errors import SatchelError, UnsupportedError, UsageError
from wire import (
    LOOPBACK_HOSTS,
    Acceptor,
    Conversations,
    ErrorReport,
    HttpExchange,
    ProgramGone,
    listen_local,
    refuse_other_sites,
)

logger = logging.getLogger(__name__)

THREADS = 8
"""Operations at a time."""

MAX_REQUEST_BYTES = 256 << 20
"""Of a body; a larger one is answered with 413, by its head if that says so. Beyond BODY_IN_MEMORY
it waits in a file until it is whole."""

WHOLE_BYTES = 32 << 20
"""A longer body of a stateful service's request goes in pieces, another one's is refused."""

BLOCK_BYTES = 256 << 10
BODY_IN_MEMORY = 512 << 10
BODY_RATE = 32 << 10
END_SECONDS = 5.0


class Proxy:
    """Serves 127.0.0.1:port until closed. Every request is one operation of the session.

    The answer carries who answered first and after how long, in X-Satchel-* headers. An answer
    without these is the proxy's own, an error in JSON.
    """

    def __init__(
        self, session: Session, port: int = 0, origin: ServiceOrigin | None = None
    ) -> None:
        """Listen on `port`, or on a free one for 0. origin: where browsers are sent; without one
        they stay. Raises ConflictError when the port is taken."""
        self._session, self._origin = session, origin
        self._clearing = BrowserCacheReset(session)
        self._workers = threading.BoundedSemaphore(THREADS)
        self._programs = Conversations(self._answer, rate=BODY_RATE)
        self._acceptor = Acceptor(listen_local(port), self._programs.adopt, "http port")
        self.port = self._acceptor.port
        self.url = f"http://127.0.0.1:{self.port}/"
        self._acceptor.start()

    def close(self) -> None:
        """Listen no more. Requests under way are answered if their operations end soon."""
        self._acceptor.close()
        self._programs.close(END_SECONDS)

    def _answer(self, asked: HttpExchange) -> None:
        try:
            self._operate(asked)
        except SatchelError as error:
            logger.info("%s %s: %s", asked.method, asked.path, error)
            _say(asked, ErrorReport.of(error))
        except ProgramGone:
            raise
        except Exception as error:
            logger.exception("%s %s failed", asked.method, asked.path)
            what = f"{asked.method} {asked.path} failed unexpectedly"
            fix = "the log has the traceback"
            _say(asked, ErrorReport("internal", what, type(error).__name__, fix))

    def _operate(self, asked: HttpExchange) -> None:
        """Raises SatchelError, and ProgramGone."""
        named, origin = asked.named, self._origin
        if asked.authority is not None:
            named["host"] = asked.authority  # it counts instead (RFC 9112, 3.2.2)
        if origin and is_sandboxed(named, f"{origin.host}:{self.port}"):
            named = {k: v for k, v in named.items() if k not in ("origin", "sec-fetch-site")}
        header = lambda name: named.get(name.lower())  # noqa: E731
        hosts = origin.hosts if origin else LOOPBACK_HOSTS
        refuse_other_sites(self.port, asked.method, header, hosts)
        if not (asked.path.startswith("/") or (asked.path, asked.method) == ("*", "OPTIONS")):
            raise UsageError(f"{asked.path[:80]} is not a target at a service")
        if origin and (url := origin.elsewhere(self.port, header, asked.path, asked.connection)):
            asked.answer(307, [("Location", url), ("Cache-Control", "no-store")])
            return
        _refuse_upgrade(named.get("upgrade", ""))
        with tempfile.SpooledTemporaryFile(BODY_IN_MEMORY) as body:
            if not self._receive(asked, body):
                return
            with self._workers:
                answer = _call(self._session, asked, body)
        self._deliver(asked, answer)

    def _receive(self, asked: HttpExchange, body: IO[bytes]) -> bool:
        """Write the request's body to a file. If it is too long, answer so and return False.
        Raises ProgramGone."""
        most = MAX_REQUEST_BYTES
        if not self._session.stateful:
            most = min(most, WHOLE_BYTES)
        fits = (asked.size or 0) <= most
        for piece in asked.body() if fits else ():
            fits = body.tell() + len(piece) <= most
            if not fits:
                break
            body.write(piece)
        if not fits:
            what, why = "the request's body is too long", f"this service takes {most} bytes"
            _say(asked, ErrorReport("usage", what, why, ""), 413)
        return fits

    def _deliver(self, asked: HttpExchange, answer: Answer) -> None:
        """Raises SatchelError before the answer has begun, and ProgramGone."""
        with contextlib.ExitStack() as stack:
            if answer.long:
                stack.callback(answer.long.close)
            response = http.decode(answer.long.head() if answer.long else answer.payload)
            headers = kept_headers(self._session, answer, response, asked.named)
            if self._origin and is_browser(asked.named) and self._clearing.due():
                headers.append(("Clear-Site-Data", CLEAR))
            headers += [
                ("X-Satchel-Operation", str(answer.number)),
                ("X-Satchel-Leader", answer.leader),
                ("X-Satchel-Seconds", f"{answer.seconds:.6f}"),
                ("X-Satchel-Stable", "yes" if answer.stable else "no"),
            ]
            body: bytes | Iterator[bytes] = response.body
            if answer.long:
                body = _rest(answer.long, response.body)
                if runs(asked.named, response):
                    body = self._confirmed(answer, body)
            asked.answer(response.status, headers, body, response.reason)

    def _confirmed(self, answer: Answer, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces, the last one only if home confirms the answer: a browser runs nothing
        of a script that breaks off. Raises ProgramGone."""
        held = b""
        for piece in pieces:
            if held:
                yield held
            held = piece
        try:
            require_confirmed(self._session, answer)
        except SatchelError as error:
            raise ProgramGone(str(error)) from error
        yield held


def _call(session: Session, asked: HttpExchange, body: IO[bytes]) -> Answer:
    """Make the request an operation, and return its answer. Raises the errors of `Session.call`."""
    size = body.tell()
    body.seek(0)
    long = size > WHOLE_BYTES
    whole = b"" if long else body.read()
    headers = [(name, value) for name, value in asked.headers if name.lower() != "host"]
    headers.append(("Host", asked.named.get("host", "localhost")))

    def encode(number: int, time_ns: int, seed: int) -> bytes:
        return http.encode(
            asked.method,
            asked.path,
            headers,
            whole,
            number=number,
            time_ns=time_ns,
            seed=seed,
            length=size if long else None,
        )

    if not long:
        return session.call(encode)
    return upload(session, encode, iter(lambda: body.read(BLOCK_BYTES), b""))


def _rest(answer: LongAnswer, piece: bytes) -> Iterator[bytes]:
    """Yield that piece of a body and the rest. If the answer breaks off, raise ProgramGone, which
    cuts the program's connection."""
    try:
        if piece:
            yield piece
        while piece := answer.read():
            yield piece
    except SatchelError as error:
        logger.warning("an answer breaks off: %s", error)
        raise ProgramGone(str(error)) from error


def _say(asked: HttpExchange, report: ErrorReport, status: int = 0) -> None:
    """Answer with an error. If an answer has begun, raise ProgramGone, which cuts it."""
    if asked.answered:
        raise ProgramGone(report.what)
    body = json.dumps(report.to_json()).encode() + b"\n"
    asked.answer(status or report.status, [("Content-Type", "application/json")], body)


def _refuse_upgrade(wanted: str) -> None:
    """Raises UnsupportedError for what needs a connection that stays. HTTP/2 is only offered: who
    asks for it goes on with HTTP/1.1."""
    protocols = {one.strip().lower() for one in wanted.split(",")} - {"", "h2c"}
    if protocols:
        raise UnsupportedError(
            f"a replayed service cannot go over to {', '.join(sorted(protocols))[:80]}",
            why="each request is an operation of its own, and no connection stays",
            fix="write websockets = true into its recipe: it is carried then",
        )
