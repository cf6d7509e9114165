# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The client against peers that are absent, slow, broken or hostile."""

import gzip
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import flask
import pytest

from satchel.errors import CapacityError, SatchelError, StateError, UnavailableError
from tests.serving import served
from tests.wire.conftest import Desk
from wire import (
    HttpClient,
    PeerTimeout,
    PeerUnreachable,
    RemoteProtocolError,
    Server,
    install_errors,
)

Script = Callable[[socket.socket], None]
Peer = Callable[..., HttpClient]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def peer(short_path: Path) -> Iterator[Peer]:
    """A peer made of scripts: the first runs on the first connection, and so on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(short_path / "peer"))
        listener.listen()
        clients = []

        def start(*scripts: Script) -> HttpClient:
            def run() -> None:
                with suppress(OSError):
                    for script in scripts:
                        connection, _ = listener.accept()
                        with connection, suppress(OSError):
                            script(connection)

            threading.Thread(target=run, daemon=True).start()
            clients.append(HttpClient(short_path / "peer", peer="the peer"))
            return clients[-1]

        yield start
        for client in clients:
            client.close()


def read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError
        data += piece


def answers(data: bytes) -> Script:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(data)

    return script


def answers_once_then_drops(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(ANSWER)
    read_request(connection)


def test_nobody_there_is_unreachable(short_path: Path) -> None:
    with (
        HttpClient(short_path / "nobody", peer="the moon") as client,
        pytest.raises(PeerUnreachable, match="GET /x to the moon: no connection"),
    ):
        client.get_json("/x")


def test_a_dead_socket_is_unreachable(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(short_path / "dead"))
    with (
        HttpClient(short_path / "dead") as client,
        pytest.raises(PeerUnreachable, match="refused"),
    ):
        client.get_json("/x")


def test_silence_is_a_timeout(desk: Desk, client: HttpClient) -> None:
    with pytest.raises(PeerTimeout, match="to the desk: no answer in time"):
        client.get_json("/wait", timeout=0.2)
    assert issubclass(PeerTimeout, UnavailableError)


def test_no_timeout_waits(desk: Desk, client: HttpClient) -> None:
    threading.Timer(0.3, desk.go.set).start()
    assert client.get_json("/wait", timeout=None) == []


def test_an_answer_that_stops_is_a_timeout(desk: Desk, client: HttpClient) -> None:
    pieces = client.post_stream("/pieces", b"ab", timeout=2.0)
    assert next(pieces) == b"a"
    with pytest.raises(PeerTimeout, match="the answer stopped"):
        next(pieces)


def test_an_answer_over_the_limit_is_refused(client: HttpClient) -> None:
    with pytest.raises(RemoteProtocolError, match="larger than 10 bytes"):
        client.post_bytes("/echo", bytes(11), limit=10)
    assert client.post_bytes("/echo", bytes(10), limit=10) == bytes(10)


def test_an_endless_answer_is_refused(desk: Desk, client: HttpClient) -> None:
    desk.go.set()
    with pytest.raises(RemoteProtocolError, match="larger"):
        client.get_bytes("/stream", limit=1 << 20)
    assert desk.closed.wait(60)


def test_a_connection_closed_while_idle_is_not_noticed(peer: Peer) -> None:
    closed = threading.Event()

    def answers_and_closes(connection: socket.socket) -> None:
        answers(ANSWER)(connection)
        connection.close()
        closed.set()

    client = peer(answers_and_closes, answers(ANSWER))
    assert client.post_json("/x") == {}
    assert closed.wait(60)
    assert client.post_json("/x") == {}


def test_a_connection_dropped_at_the_moment_of_use_is_repeated_if_idempotent(peer: Peer) -> None:
    client = peer(answers_once_then_drops, answers_once_then_drops, answers(ANSWER))
    assert client.get_json("/x") == {}
    assert client.get_json("/x") == {}
    assert client.post_json("/x", idempotent=True) == {}


def test_a_call_that_is_not_idempotent_is_not_repeated(peer: Peer) -> None:
    client = peer(answers_once_then_drops, answers(ANSWER))
    assert client.get_json("/x") == {}
    with pytest.raises(PeerUnreachable, match="the connection ended"):
        client.post_json("/x", {})


def test_a_peer_that_always_drops_is_unreachable(peer: Peer) -> None:
    client = peer(read_request, read_request)
    with pytest.raises(PeerUnreachable, match="GET /x to the peer: no answer"):
        client.get_json("/x")


def test_an_answer_that_breaks_off_is_unreachable(peer: Peer) -> None:
    client = peer(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"))
    with pytest.raises(PeerUnreachable, match="broke off"):
        client.get_bytes("/x")


PACKED = gzip.compress(bytes(1 << 20))


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(PACKED), PACKED),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"a":',
    ],
    ids=["no-http", "long-header", "length", "redirect", "compressed", "chunk", "json"],
)
def test_malformed_answers_are_the_peers_fault(peer: Peer, answer: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        peer(answers(answer)).get_json("/x")


def test_an_error_without_a_report_keeps_its_status(peer: Peer) -> None:
    client = peer(answers(b"HTTP/1.1 507 Full\r\nContent-Length: 4\r\n\r\nfull"))
    with pytest.raises(CapacityError, match="GET /x to the peer: HTTP status 507"):
        client.get_json("/x")


def test_closing_waits_for_calls_that_are_under_way(desk: Desk, server: Server) -> None:
    client = HttpClient(server.path)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.get_json, "/wait")
        assert desk.entered.acquire(timeout=60)
        client.close()
        with pytest.raises(StateError, match="closed"):
            client.get_json("/wait")
        desk.go.set()
        assert running.result(60) == []


def test_an_answer_may_be_empty(short_path: Path) -> None:
    app = flask.Flask("empty")
    install_errors(app)
    app.delete("/x")(lambda: ("", 204))
    with served(app, short_path) as client:
        assert client.delete("/x") is None
        with pytest.raises(SatchelError):
            client.delete("/y")


def test_an_answer_is_heard_as_it_comes(desk: Desk, client: HttpClient) -> None:
    pieces = client.post_stream("/pieces", b"abc")
    assert next(pieces) == b"a"  # the desk waits
    desk.go.set()
    assert b"".join(pieces) == b"bc"
    assert client.post_bytes("/pieces", b"") == b""


def test_an_error_before_the_first_piece_is_raised(client: HttpClient) -> None:
    with pytest.raises(UnavailableError, match="no beer"):
        list(client.post_stream("/pieces", b"!bc"))


def test_an_error_after_the_first_piece_ends_the_answer(desk: Desk, client: HttpClient) -> None:
    desk.go.set()
    assert b"".join(client.post_stream("/pieces", b"ab!c")) == b"ab"


def test_an_answer_that_breaks_off_is_told_from_one_that_ends(
    desk: Desk, client: HttpClient
) -> None:
    pieces = client.post_stream("/pieces", b"a?")
    assert next(pieces) == b"a"
    desk.go.set()
    with pytest.raises(PeerUnreachable, match="broke off"):
        list(pieces)


def test_who_takes_no_more_of_an_answer_leaves_no_call_behind(
    desk: Desk, client: HttpClient
) -> None:
    pieces = client.post_stream("/pieces", b"abc", limit=2)
    assert next(pieces) == b"a"
    assert isinstance(pieces, Generator)
    pieces.close()
    desk.go.set()
    with pytest.raises(RemoteProtocolError, match="larger than 2 bytes"):
        list(client.post_stream("/pieces", b"abc", limit=2))
    assert client.post_bytes("/echo", b"x") == b"x"


def test_a_client_that_is_cut_ends_calls_and_makes_no_more(server: Server, desk: Desk) -> None:
    """Also those that would be repeated."""
    client = HttpClient(server.path)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(client.get_json, "/wait", timeout=None) for _ in range(2)]
        assert all(desk.entered.acquire(timeout=30) for _ in calls)
        client.cut()
        errors = [call.exception(30) for call in calls]
    assert [type(error) for error in errors] == [PeerUnreachable] * 2
    with pytest.raises(StateError):
        client.get_json("/wait")


def test_a_client_that_is_cut_ends_an_answer_that_is_coming(server: Server, desk: Desk) -> None:
    client = HttpClient(server.path)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.get_bytes, "/stream", timeout=None)
        assert desk.entered.acquire(timeout=30)
        client.cut()
        assert isinstance(call.exception(30), PeerUnreachable)
