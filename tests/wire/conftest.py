# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A served application that does whatever a test asks for, a client of it, and a private sshd."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flask
import pytest

from satchel.errors import ROOTS, UnavailableError
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from wire import (
    HttpClient,
    Identity,
    Server,
    SshHost,
    install_errors,
    serve,
    streamed,
)

MAX_BODY = 80 << 20


class Leaf(UnavailableError):
    """A leaf that the other side does not know."""


@dataclass
class Desk:
    """An application, and what happened in it."""

    app: flask.Flask
    go: threading.Event = field(default_factory=threading.Event)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    calls: int = 0
    closed: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = make_desk()
    yield desk
    desk.go.set()


def make_desk() -> Desk:
    app = flask.Flask("desk")
    install_errors(app)
    desk = Desk(app)

    @app.post("/echo")
    def echo() -> flask.Response:
        desk.calls += 1
        return flask.Response(flask.request.get_data(), mimetype="application/octet-stream")

    @app.get("/error/<code>")
    def error(code: str) -> str:
        raise {root.wire_code: root for root in ROOTS}[code]("no beer", why="dry", fix="brew")

    @app.get("/leaf")
    def leaf() -> str:
        raise Leaf("no beer")

    @app.post("/json")
    def json() -> Any:
        return [flask.request.get_json()]

    @app.get("/bug")
    def bug() -> str:
        raise RuntimeError("the secret")

    add_slow_routes(desk)
    add_pieces(desk)
    return desk


def add_pieces(desk: Desk) -> None:
    @desk.app.post("/pieces")
    def pieces() -> flask.Response:
        """Each byte that was sent, the second and all others when the desk may go on; `!` is an
        error, `?` a bug."""

        def made(data: bytes) -> Iterator[bytes]:
            for at, byte in enumerate(data):
                if at:
                    desk.go.wait(30)
                if byte == ord("!"):
                    raise Leaf("no beer")
                if byte == ord("?"):
                    raise RuntimeError("the secret")
                yield bytes([byte])

        return streamed(made(flask.request.get_data()))


def add_slow_routes(desk: Desk) -> None:
    app = desk.app

    @app.get("/wait")
    def wait() -> str:
        desk.entered.release()
        desk.go.wait(30)
        return "[]"

    @app.get("/stream")
    def stream() -> flask.Response:
        def pieces() -> Iterator[bytes]:
            try:
                yield b"first"
                desk.entered.release()
                desk.go.wait(30)
                for _ in range(400):
                    yield os.urandom(65536)
            finally:
                desk.closed.set()

        return flask.Response(pieces(), mimetype="application/octet-stream")


@pytest.fixture
def server(desk: Desk, short_path: Path) -> Iterator[Server]:
    with serve(desk.app, short_path / "desk", threads=4, max_body=MAX_BODY) as server:
        yield server
        desk.go.set()


@pytest.fixture
def client(server: Server) -> Iterator[HttpClient]:
    with HttpClient(server.path, peer="the desk") as client:
        yield client


@pytest.fixture
def me(short_path: Path) -> Identity:
    return Identity.create(short_path / "me")


@pytest.fixture
def sshd(short_path: Path, me: Identity) -> Iterator[Sshd]:
    with Sshd.start(
        short_path / "sshd", authorized=[me.public], door=plain_door(short_path)
    ) as sshd:
        yield sshd


@pytest.fixture
def host(sshd: Sshd, me: Identity, short_path: Path) -> SshHost:
    return sshd.host("home", me.path, short_path / "known_hosts")
