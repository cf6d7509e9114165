# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A source through the forward of a client that walks: another forward is at the socket then, and
connections through the old one are silent."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import flask
import pytest

from chunkstore import Store
from satchel.errors import StateError
from surrogate.fetching.sources import SocketSource
from tests.chunkstore.content import noise
from tests.waiting import eventually
from wire import PeerTimeout, Priority, chunk_routes, install_errors, serve

CONNECTIONS = 4
SILENCE = 0.5
LONG = 60.0
"""Seconds after which a request on an old connection would end, too late for the test."""


class Forward:
    """Carries what comes to `path` to another socket, until it carries nothing more: connections
    stand, and nobody is told. swallowed: pieces that came since then"""

    def __init__(self, path: Path, target: Path) -> None:
        path.unlink(missing_ok=True)
        self._target = target
        self.swallowed = 0
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
                if self._gone.is_set():
                    self.swallowed += 1
                else:
                    sink.sendall(data)


class Walk:
    """A source with several connections through a forward, of a client that walks."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.create(folder / "store")
        self.refs = self.store.put(noise(1, 3))
        together = threading.Barrier(CONNECTIONS)
        self.walked = False

        def records(refs: bytes) -> bytes:
            if not self.walked:
                together.wait(LONG)  # as many connections as requests
            return self.store.records(refs)

        app = flask.Flask("media")
        install_errors(app)
        app.register_blueprint(chunk_routes(records))
        self.server = serve(app, folder / "media.sock", threads=8, max_body=1 << 20)
        self.path = folder / "forwarded.sock"
        self.forwards = [Forward(self.path, self.server.path)]
        self.source = SocketSource("media", self.path)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            answers = list(pool.map(lambda _: self.fetch(LONG), range(CONNECTIONS)))
        assert answers == [self.store.records(self.refs)] * CONNECTIONS

    def leave(self) -> None:
        """What goes through the forward from now on is swallowed."""
        self.forwards[-1].lose()
        self.walked = True

    def come_back(self) -> None:
        """Another forward is at the socket."""
        self.forwards.append(Forward(self.path, self.server.path))

    def fetch(self, silence: float) -> bytes:
        return self.source.fetch(self.refs, Priority.DEMAND, silence)

    def fetched(self) -> bool:
        return self.fetch(LONG) == self.store.records(self.refs)

    def close(self) -> None:
        self.source.close()
        for forward in self.forwards:
            forward.close()
        self.server.close(grace=0.0)


@pytest.fixture
def walk(short_path: Path) -> Iterator[Walk]:
    made = Walk(short_path)
    yield made
    made.close()


def test_after_a_walk_no_connection_from_before_is_used(walk: Walk) -> None:
    """A hand-over after a walk found every connection dead, and waited seconds for each."""
    walk.leave()
    walk.come_back()
    assert walk.source.renewed()
    assert not walk.source.renewed()
    assert all(walk.fetched() for _ in range(CONNECTIONS))


def test_what_was_asked_before_the_client_is_back_is_asked_again_at_once(walk: Walk) -> None:
    walk.leave()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        asked = [pool.submit(walk.fetched) for _ in range(CONNECTIONS)]
        assert eventually(lambda: walk.forwards[0].swallowed >= CONNECTIONS)
        assert not any(each.done() for each in asked)
        walk.come_back()
        assert walk.source.renewed()
        assert all(each.result(LONG / 2) for each in asked)


def test_a_source_that_is_closed_is_not_asked_again(walk: Walk) -> None:
    walk.leave()
    walk.source.close()
    walk.come_back()
    assert not walk.source.renewed()
    with pytest.raises(StateError):
        walk.fetch(LONG)


def test_after_one_silence_other_connections_are_used(walk: Walk) -> None:
    """Also where nobody has seen another forward come."""
    walk.leave()
    walk.come_back()
    with pytest.raises(PeerTimeout):
        walk.fetch(SILENCE)
    assert walk.fetched()


def test_requests_that_are_silent_together_leave_a_source_that_answers(walk: Walk) -> None:
    walk.leave()
    walk.come_back()

    def silent(_: int) -> bool:
        try:
            walk.fetch(SILENCE)
        except PeerTimeout:
            return True
        return False

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        assert any(pool.map(silent, range(CONNECTIONS)))
    assert walk.fetched()
