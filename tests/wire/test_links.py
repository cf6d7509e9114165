# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections that are made again when they break, over a real sshd."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import flask
import pytest

from satchel.errors import AccessError, SatchelError, StateError, UnavailableError
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from tests.needs import requires
from tests.waiting import eventually
from wire import (
    ChunkClient,
    HttpClient,
    Identity,
    Lane,
    Link,
    Links,
    Server,
    chunk_routes,
    install_errors,
    serve,
)

pytestmark = requires("ssh", "sshd")


def source(provider: Callable[[bytes], bytes]) -> flask.Flask:
    app = flask.Flask("source")
    install_errors(app)
    app.register_blueprint(chunk_routes(provider))
    return app


class Peerage:
    """A host with a daemon that answers with its name, and a client's links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked, self.over = threading.Event(), threading.Event()
        self.key = Identity.create(folder / "me")
        self.sshd = self.start_sshd()
        self.socket = folder / "api"
        self.server = self.serve()
        self.known_hosts = folder / "known_hosts"
        self.peer = self.sshd.peer("spot", self.key.path, self.known_hosts)
        self.links = Links(folder / "run" / "l" / "notes")

    def serve(self) -> Server:
        app = flask.Flask("daemon")
        install_errors(app)

        @app.get("/name")
        def name() -> list[str]:
            return ["spot"]

        @app.post("/name")
        def rename() -> list[str]:
            return [flask.request.get_json()]

        @app.get("/long")
        def long() -> list[str]:
            self.asked.set()
            self.over.wait(100)
            return []

        return serve(app, self.socket, threads=4, max_body=1000)

    def restart(self) -> None:
        self.sshd.stop()
        self.sshd = self.start_sshd(self.sshd.port)

    def start_sshd(self, port: int = 0) -> Sshd:
        keys, door = [self.key.public], plain_door(self.folder)
        return Sshd.start(self.folder / "sshd", authorized=keys, port=port, door=door)

    def connections(self) -> list[int]:
        """Living ssh processes that are ours."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if words.startswith(b"ssh\0") and str(self.known_hosts).encode() in words:
                found.append(int(path.parent.name))
        return found

    def close(self) -> None:
        self.links.close()
        self.over.set()
        self.server.close()
        self.sshd.stop()


@pytest.fixture
def peerage(short_path: Path) -> Iterator[Peerage]:
    made = Peerage(short_path)
    yield made
    made.close()


def name(link: Link) -> str:
    try:
        return str(link.http.get_json("/name", timeout=30)[0])
    except SatchelError as error:
        return type(error).__name__


def test_what_is_posted_after_the_connection_broke_is_posted_over_a_new_one(
    peerage: Peerage,
) -> None:
    link = peerage.links.open("spot", peerage.peer)
    assert link.post_json("/name", "here", timeout=30) == ["here"]
    peerage.restart()
    assert link.post_json("/name", "there", timeout=30) == ["there"]


def test_a_link_carries_requests_and_leaves_nothing(peerage: Peerage) -> None:
    link = peerage.links.open("spot", peerage.peer)
    assert name(link) == "spot"
    assert link.alive
    assert peerage.links.open("spot", peerage.peer) is link
    assert len(peerage.connections()) >= 1
    peerage.links.close()
    assert eventually(lambda: peerage.connections() == [])
    assert not (peerage.folder / "run" / "l" / "notes").exists()
    assert not any(thread.name.startswith("link-") for thread in threading.enumerate())


@pytest.mark.parametrize("how", ["drop", "restart"])
def test_a_connection_that_broke_is_made_again_by_itself(peerage: Peerage, how: str) -> None:
    link = peerage.links.open("spot", peerage.peer)
    assert name(link) == "spot"
    if how == "drop":
        peerage.sshd.drop_sessions()
    else:
        peerage.restart()
    assert eventually(lambda: name(link) == "spot")


def test_a_walk_is_seen_when_the_kernel_tells_of_it(
    peerage: Peerage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by who connects because there is something to send."""
    tell: list[Callable[[], None]] = []

    class FakeWatch:
        def __init__(self, changed: Callable[[], None]) -> None:
            tell.append(changed)

        def close(self) -> None:
            tell.clear()

    monkeypatch.setattr("wire.link.links.RouteWatch", FakeWatch)
    monkeypatch.setattr("wire.link.links.WATCH_SECONDS", 1000.0)
    with Links(peerage.folder / "run" / "walk") as links:
        link = links.open("spot", peerage.peer)
        (before,) = peerage.sshd.sessions()
        monkeypatch.setattr("wire.link.links._Route._now", lambda route: "192.0.2.1")
        tell[0]()
        assert eventually(lambda: before not in peerage.sshd.sessions())
        assert eventually(lambda: name(link) == "spot")
        assert link.stands(1000.0)
        assert eventually(lambda: len(peerage.sshd.sessions()) == 1)
        (second,) = peerage.sshd.sessions()
        monkeypatch.setattr("wire.link.links._Route._now", lambda route: "192.0.2.2")
        link.connect()
        assert second not in peerage.sshd.sessions()
        assert name(link) == "spot"


def test_a_link_asks_again_until_the_host_is_there(peerage: Peerage) -> None:
    peerage.sshd.stop()
    with pytest.raises(UnavailableError, match="cannot connect to spot"):
        peerage.links.open("spot", peerage.peer)
    link = peerage.links.get("spot", peerage.peer)
    assert not link.alive
    assert not link.stands(1000.0)
    assert name(link) == "PeerUnreachable"
    peerage.restart()
    assert eventually(lambda: name(link) == "spot")


def test_what_is_offered_is_there_again_after_the_connection_broke(peerage: Peerage) -> None:
    folder = peerage.folder / "offered"
    link = peerage.links.open("spot-chunks", peerage.peer, Lane.BULK)
    socket = Path(link.offer("media", source(lambda refs: b"records of %d" % len(refs))))
    assert socket.parent == folder
    assert folder.stat().st_mode & 0o777 == 0o700

    def fetched() -> bytes:
        try:
            with HttpClient(socket) as http:
                return ChunkClient(http).fetch(b"x" * 52, timeout=30)
        except SatchelError:
            return b""

    assert fetched() == b"records of 52"
    peerage.sshd.drop_sessions()
    assert eventually(lambda: fetched() == b"records of 52")
    peerage.links.close()
    assert not socket.exists()
    assert list((peerage.folder / "run").glob("**/*.media")) == []


def test_two_offers_of_one_name_do_not_meet(peerage: Peerage) -> None:
    first = peerage.links.open("spot", peerage.peer)
    second = peerage.links.open("other", peerage.peer)
    offers = [link.offer("media", source(lambda refs: b"")) for link in (first, second)]
    assert offers[0] != offers[1]


def test_an_offer_needs_a_connection(peerage: Peerage) -> None:
    link = peerage.links.get("spot", peerage.peer)
    with pytest.raises(StateError, match="cannot offer media to spot"):
        link.offer("media", source(lambda refs: b""))


def test_a_wrong_key_is_told_in_clear_text(peerage: Peerage) -> None:
    other = Identity.create(peerage.folder / "other")
    peer = dataclasses.replace(peerage.peer, identity=other.path)
    with pytest.raises(AccessError, match="does not accept the key") as raised:
        peerage.links.open("spot", peer)
    assert raised.value.exit_code == 9
    assert "authorized_keys" in raised.value.fix


def test_another_host_key_is_told_in_clear_text(peerage: Peerage) -> None:
    other = Identity.create(peerage.folder / "host")
    line = peerage.sshd.known_hosts_line.split(" ")[0]
    peerage.known_hosts.write_text(f"{line} {other.public}\n")
    with pytest.raises(AccessError, match="shows another host key") as raised:
        peerage.links.open("spot", peerage.peer)
    assert raised.value.exit_code == 9


def test_a_request_under_way_ends_when_the_link_is_closed(peerage: Peerage) -> None:
    link = peerage.links.open("spot", peerage.peer)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            link.http.get_json("/long", timeout=None)
        except SatchelError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert peerage.asked.wait(60)
    peerage.links.drop("spot")
    asking.join()
    assert errors
    assert not peerage.over.is_set(), "it was answered"


def test_closing_does_not_wait_for_a_host_that_does_not_answer(peerage: Peerage) -> None:
    silent = dataclasses.replace(peerage.peer, destination="root@192.0.2.1")
    link = peerage.links.get("far", silent)
    errors: list[Exception] = []

    def connect() -> None:
        try:
            link.connect()
        except SatchelError as error:
            errors.append(error)

    connecting = threading.Thread(target=connect)
    connecting.start()
    time.sleep(0.3)
    began = time.monotonic()
    peerage.links.close()
    connecting.join()
    assert errors
    assert time.monotonic() - began < 30


def test_many_links_leave_no_descriptor(peerage: Peerage) -> None:
    peerage.links.open("spot", peerage.peer)
    peerage.links.drop("spot")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        assert name(peerage.links.open("spot", peerage.peer)) == "spot"
        peerage.links.drop("spot")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
