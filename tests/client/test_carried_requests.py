# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of a carried service whose machine is lost: the client repeats those that may be sent
twice, and reports the rest. Service and agent are real; the agent begins a new conversation."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client import TcpPort
from client.fronts.requests import KEPT_BYTES, FrontRequests
from client.streams.resending import send_again
from images import ServedPort
from satchel.timestamps import elapsed
from tests.client.test_proxy import curl
from tests.needs import requires
from tests.replay.test_streams import Guest, guest
from tests.waiting import PATIENCE_SECONDS, eventually

pytestmark = requires("curl")

DECLARED = ("GET /", "PUT /notes")


class Notes(BaseHTTPRequestHandler):
    """Keeps the notes that are put, and answers only when `answers` is set."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, bytes]
    asked: list[str]
    answers: threading.Event

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.asked.append(f"{self.command} {self.path}")
        self.answers.wait(PATIENCE_SECONDS)
        if self.command != "GET":
            self.kept[self.path] = body
        answer = self.kept.get(self.path, b"none")
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_PUT = do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class DeclaredService:
    """A front of a service with these requests declared, and what the service knows."""

    def __init__(self, made: Guest, server: ThreadingHTTPServer, asked: type[Notes]) -> None:
        self.guest, self.kept, self.asked, self.answers = (
            made,
            asked.kept,
            asked.asked,
            asked.answers,
        )
        self.requests = FrontRequests(DECLARED, lambda: 0.0)
        self.front = TcpPort(made.relay, ServedPort("http", server.server_port, 0), self.requests)
        self.url = self.front.url.rstrip("/")

    def lose(self) -> None:
        """Replace the machine by another, which has none of the notes."""
        self.guest.relay.begin_anew()
        self.kept.clear()


@pytest.fixture
def kept(short_path: Path) -> Iterator[DeclaredService]:
    with answering() as (server, asked), guest(short_path, server.server_port) as made:
        made.attach()
        found = DeclaredService(made, server, asked)
        yield found
        found.front.close()


@contextmanager
def answering() -> Iterator[tuple[ThreadingHTTPServer, type[Notes]]]:
    answers = threading.Event()
    answers.set()
    asked = type("RecordedNotes", (Notes,), {"kept": {}, "asked": [], "answers": answers})
    with ThreadingHTTPServer(("127.0.0.1", 0), asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server, asked
        finally:
            answers.set()
            server.shutdown()
            thread.join()


def test_what_was_answered_and_may_be_sent_twice_is_sent_again_in_order(
    kept: DeclaredService,
) -> None:
    for path, body in (("/notes/1", b"old"), ("/notes/2", b"two"), ("/notes/1", b"new")):
        assert curl("-X", "PUT", "-d", body.decode(), f"{kept.url}{path}").stdout == body
    assert curl("-d", "x", f"{kept.url}/orders?to=me").stdout == b"x"
    assert curl(f"{kept.url}/notes/1").stdout == b"new"
    kept.lose()
    lost = kept.requests.lost(0.0)
    assert [str(request) for request in lost.told] == ["POST /orders?to=me"]
    assert [str(r) for r in lost.again] == ["PUT /notes/1", "PUT /notes/2", "PUT /notes/1"]
    kept.guest.attach()
    send_again(kept.guest.relay, lost.again)
    assert eventually(lambda: len(kept.kept) == 2 and kept.kept["/notes/1"] == b"new")
    assert kept.kept["/notes/2"] == b"two"
    assert kept.asked.count("POST /orders?to=me") == 1
    assert kept.requests.lost(0.0).again == []


def test_a_copy_ends_what_is_remembered_though_the_clock_jumps(
    kept: DeclaredService, monkeypatch: pytest.MonkeyPatch
) -> None:
    curl("-X", "PUT", "-d", "one", f"{kept.url}/notes/1")
    time.sleep(0.01)
    copied = elapsed()
    monkeypatch.setattr(time, "time", lambda: 1e9)
    curl("-X", "PUT", "-d", "two", f"{kept.url}/notes/2")
    assert [str(request) for request in kept.requests.lost(copied).again] == ["PUT /notes/2"]


def test_a_program_that_waits_gets_the_answer_of_the_next_machine(kept: DeclaredService) -> None:
    kept.answers.clear()
    said: list[bytes] = []
    words = ("-X", "PUT", "-d", "kept", f"{kept.url}/notes/1")
    program = threading.Thread(target=lambda: said.append(curl(*words).stdout))
    program.start()
    assert eventually(lambda: kept.asked)
    kept.lose()
    lost = kept.requests.lost(0.0)
    assert (lost.again, lost.told, lost.resent) == ([], [], 1)
    kept.guest.attach()
    assert eventually(lambda: len(kept.asked) == 2)
    kept.answers.set()
    program.join()
    assert said == [b"kept"]


def test_a_program_whose_request_may_not_be_sent_twice_is_told(kept: DeclaredService) -> None:
    kept.answers.clear()
    with socket.create_connection(("127.0.0.1", kept.front.port), PATIENCE_SECONDS) as program:
        host = f"Host: 127.0.0.1:{kept.front.port}"
        program.sendall(f"POST /orders HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n".encode())
        assert eventually(lambda: kept.asked)
        kept.lose()
        with pytest.raises(ConnectionResetError):
            program.recv(1)
    assert [str(request) for request in kept.requests.lost(0.0).told] == ["POST /orders"]


def test_what_is_kept_is_bounded() -> None:
    requests = FrontRequests(("PUT /",), lambda: 0.0)
    first = requests.begin(80, "PUT", "/a")
    for _ in range(KEPT_BYTES >> 20):
        requests.keep(first, bytes(1 << 20))
    second = requests.begin(80, "PUT", "/b")
    requests.keep(second, b"one too many")
    lost = requests.lost(0.0)
    assert ([str(r) for r in lost.again], [str(r) for r in lost.told]) == (["PUT /a"], ["PUT /b"])


def test_what_a_copy_has_makes_room() -> None:
    copied = 0.0
    requests = FrontRequests(("PUT /",), lambda: copied)
    first = requests.begin(80, "PUT", "/a")
    requests.keep(first, bytes(KEPT_BYTES))
    first.answered = elapsed()
    copied = elapsed() + 1
    second = requests.begin(80, "PUT", "/b")
    requests.keep(second, b"fits")
    lost = requests.lost(copied)
    assert ([str(r) for r in lost.again], lost.told) == (["PUT /b"], [])


@pytest.mark.parametrize(
    ("target", "declared"),
    [
        *(("/notes/../orders", False), ("/notes%2f..", False), ("/notesx", False), ("/", False)),
        *(("/notes/%2e%2E/orders", False), ("/notes/a%2f..%2F..%2forders", False)),
        *(("/notes/..%5corders", False), ("/x/../notes", False), ("/notes%2Fa", False)),
        *(("/notes/caf%C3%A9", True), ("/n%6ftes/1", True), ("/./notes/%2E/1?q=..", True)),
        *(("http://127.0.0.1:80/notes", True), ("http://127.0.0.1/orders?/notes", False)),
    ],
)
def test_only_what_is_declared_may_be_sent_twice(target: str, declared: bool) -> None:
    requests = FrontRequests(DECLARED, lambda: 0.0)
    requests.begin(80, "PUT", target)
    lost = requests.lost(0.0)
    assert (len(lost.again), len(lost.told)) == ((1, 0) if declared else (0, 1))


def test_a_request_that_offers_another_protocol_is_repeated_and_told(kept: DeclaredService) -> None:
    offer = ("-H", "Connection: Upgrade", "-H", "Upgrade: h2c")
    curl("-X", "PUT", "-d", "one", *offer, f"{kept.url}/notes/1", f"{kept.url}/notes/2")
    curl(*offer, "-d", "x", f"{kept.url}/orders", f"{kept.url}/orders/2")
    lost = kept.requests.lost(0.0)
    assert [str(each) for each in lost.again] == ["PUT /notes/1", "PUT /notes/2"]
    assert [str(each) for each in lost.told] == ["POST /orders", "POST /orders/2"]
