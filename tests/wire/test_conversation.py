# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a local port talks to a program over one connection."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from wire import Acceptor, Conversations, HttpExchange, listen_local
from wire.http import conversation
from wire.http.conversation import Answer, ProgramConversation


def test_a_body_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    """It did, for 40 ms in each answer, and a crawl of 40 folders took 1.3 s longer."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            ProgramConversation(connection, lambda exchange: None)
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_socket_without_a_port_needs_nothing_of_that() -> None:
    ours, its = socket.socketpair()
    with ours, its:
        ProgramConversation(ours, lambda exchange: None)
        its.sendall(b"x")
        assert ours.recv(1) == b"x"


@contextlib.contextmanager
def port(answer: Answer, rate: int = 0) -> Iterator[tuple[int, Conversations]]:
    made = Conversations(answer, rate=rate)
    acceptor = Acceptor(listen_local(0), made.adopt, "test port")
    acceptor.start()
    try:
        yield acceptor.port, made
    finally:
        acceptor.close()
        made.close()


def greet(exchange: HttpExchange) -> None:
    exchange.answer(200, body=b"hello")


def said(number: int, *pieces: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", number), 30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "request_",
    [b"GET / HTTP/1.1\r\nHost", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"],
)
def test_a_request_that_comes_too_slowly_is_told_so(
    monkeypatch: pytest.MonkeyPatch, request_: bytes
) -> None:
    monkeypatch.setattr(conversation, "IDLE_SECONDS", 0.2)

    def read(exchange: HttpExchange) -> None:
        exchange.answer(200, body=exchange.whole_body(100) or b"")

    with port(read) as (number, _):
        assert said(number, request_).startswith(b"HTTP/1.1 408 ")
        assert said(number, b"") == b""  # nothing was asked


def test_a_trickle_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "HEAD_SECONDS", 0.2)
    with port(greet) as (number, _), socket.create_connection(("127.0.0.1", number), 30) as slow:
        for byte in b"GET / HTTP/1.1\r\nHost: x":
            slow.sendall(bytes([byte]))
            time.sleep(0.02)
            if slow in select.select([slow], [], [], 0)[0]:
                break
        assert slow.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_an_answer_before_a_long_body_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset took it from the program."""
    monkeypatch.setattr(conversation, "DRAIN_BYTES", 1000)
    body = bytes(4 << 20)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with port(greet) as (number, _):
        answer = said(number, head, body)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(b"hello")


def test_an_error_answered_to_head_has_no_body() -> None:
    with port(greet) as (number, _):
        twice = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = said(number, twice, twice.replace(b"x\r\n", b"x\r\nConnection: close\r\n"))
    assert answer.count(b"Content-Length: 5\r\n") == 2
    assert b"hello" not in answer


def test_requests_under_way_are_answered_at_the_end() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def answer(exchange: HttpExchange) -> None:
        begun.set()
        goes_on.wait(30)
        greet(exchange)

    with port(answer) as (number, made):
        with socket.create_connection(("127.0.0.1", number), 30) as program:
            program.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            begun.wait(30)
            threading.Timer(0.1, goes_on.set).start()
            made.close(grace=30)
            answered = b"".join(iter(lambda: program.recv(65536), b""))
        assert answered.endswith(b"hello")
        assert b"Connection: close" in answered
        with contextlib.suppress(ConnectionError):  # it may be cut before it has been read
            assert said(number, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
