# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A source through the forward of a client that walks: another forward is at the socket then, and
connections through the old one are silent."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import flask
import pytest

from chunkstore import Store
from surrogate.sources import SocketSource
from tests.chunkstore.content import noise
from wire import PeerTimeout, Priority, chunk_routes, install_errors, serve

CONNECTIONS = 4
SILENCE = 0.5
LONG = 60.0
"""Seconds after which a request on an old connection would end, too late for the test."""


class Forward:
    """Carries what comes to `path` to another socket, until it carries nothing more: connections
    stand, and nobody is told."""

    def __init__(self, path: Path, target: Path) -> None:
        path.unlink(missing_ok=True)
        self._target = target
        self._gone = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self) -> None:
        """What comes from now on is swallowed."""
        self._gone.set()

    def close(self) -> None:
        for end in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._target))
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._gone.is_set():
                    sink.sendall(data)


class Walk:
    """A source with several connections through a forward, which was lost; a new one is there."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.create(folder / "store")
        self.refs = self.store.put(noise(1, 3))
        together = threading.Barrier(CONNECTIONS)

        def records(refs: bytes) -> bytes:
            if not self.walked:
                together.wait(LONG)  # as many connections as requests
            return self.store.records(refs)

        self.walked = False
        app = flask.Flask("media")
        install_errors(app)
        app.register_blueprint(chunk_routes(records))
        self.server = serve(app, folder / "media.sock", threads=8, max_body=1 << 20)
        path = folder / "forwarded.sock"
        old = Forward(path, self.server.path)
        self.source = SocketSource("media", path)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            answers = list(pool.map(lambda _: self.fetch(LONG), range(CONNECTIONS)))
        assert answers == [self.store.records(self.refs)] * CONNECTIONS
        old.lose()
        self.walked = True
        self.forwards = [old, Forward(path, self.server.path)]

    def fetch(self, silence: float) -> bytes:
        return self.source.fetch(self.refs, Priority.DEMAND, silence)

    def close(self) -> None:
        self.source.close()
        for forward in self.forwards:
            forward.close()
        self.server.close(grace=0.0)


@pytest.fixture
def walk(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    monkeypatch.setattr("surrogate.sources.REST_PART", LONG)
    made = Walk(short_path)
    yield made
    made.close()


def test_after_one_silence_the_new_forward_is_used(walk: Walk) -> None:
    with pytest.raises(PeerTimeout):
        walk.fetch(SILENCE)
    assert walk.fetch(LONG) == walk.store.records(walk.refs)


def test_a_connection_that_had_rested_is_no_fault_of_the_source(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hand-over after a walk found every connection dead, twice, and the sources were left alone
    for seconds after each."""
    monkeypatch.setattr("surrogate.sources.REST_PART", 0.1)
    time.sleep(0.1 * SILENCE)
    assert walk.fetch(SILENCE) == walk.store.records(walk.refs)


def test_requests_that_are_silent_together_leave_a_source_that_answers(walk: Walk) -> None:
    def silent(_: int) -> bool:
        try:
            walk.fetch(SILENCE)
        except PeerTimeout:
            return True
        return False

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        assert any(pool.map(silent, range(CONNECTIONS)))
    assert walk.fetch(LONG) == walk.store.records(walk.refs)
