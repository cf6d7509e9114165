# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The server: its socket, its limits, its threads and its end."""

import contextlib
import http.client
import logging
import os
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from satchel.errors import (
    ROOTS,
    AccessError,
    ConflictError,
    SatchelError,
    UnavailableError,
    UsageError,
)
from tests.waiting import eventually
from tests.wire.conftest import MAX_BODY, Desk
from wire import HttpClient, LocalProtocolError, PeerUnreachable, Server, serve

DESCRIPTORS = Path("/proc/self/fd")


class UnixConnection(http.client.HTTPConnection):
    """The standard library's client, to look at an answer as it arrives."""

    def __init__(self, path: Path) -> None:
        super().__init__("satchel", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(str(self._path))


def test_only_its_user_may_connect(server: Server) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600


def test_a_stale_socket_is_replaced(desk: Desk, short_path: Path) -> None:
    path = short_path / "desk"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    with serve(desk.app, path, threads=1, max_body=1), HttpClient(path) as client:
        assert client.post_bytes("/echo", b"x") == b"x"


def test_a_socket_that_answers_is_left_alone(server: Server, client: HttpClient) -> None:
    with pytest.raises(ConflictError, match="another program answers there"):
        serve(lambda *_: [], server.path, threads=1, max_body=1)
    assert client.post_bytes("/echo", b"x") == b"x"


def test_another_kind_of_file_is_left_alone(desk: Desk, short_path: Path) -> None:
    path = short_path / "desk"
    path.write_text("precious")
    with pytest.raises(ConflictError, match="not a socket"):
        serve(desk.app, path, threads=1, max_body=1)
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there_is_an_access_error(desk: Desk, short_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file"):
        serve(desk.app, short_path / "no" / "desk", threads=1, max_body=1)


def test_a_path_that_is_too_long_is_refused(desk: Desk, short_path: Path) -> None:
    with pytest.raises(LocalProtocolError, match="107"):
        serve(desk.app, short_path / ("x" * 100), threads=1, max_body=1)


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.wire_code)
def test_errors_arrive_as_their_root(client: HttpClient, root: type[SatchelError]) -> None:
    with pytest.raises(SatchelError) as caught:
        client.get_json(f"/error/{root.wire_code}")
    error = caught.value
    assert (type(error), error.what, error.why, error.fix) == (root, "no beer", "dry", "brew")
    assert error.__notes__ == [f"answered to GET /error/{root.wire_code} to the desk"]


def test_a_leaf_arrives_as_its_root(client: HttpClient) -> None:
    with pytest.raises(UnavailableError) as caught:
        client.get_json("/leaf")
    assert type(caught.value) is UnavailableError


def test_a_bug_is_told_to_the_log_only(
    client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(SatchelError) as caught:
        client.get_json("/bug")
    assert type(caught.value) is SatchelError
    assert "the secret" not in str(caught.value)
    assert "the secret" in caplog.text


def test_json_that_is_nested_too_deeply_is_a_usage_error(
    client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Content-Type": "application/json"}
    with pytest.raises(UsageError, match="nested too deeply"):
        client.request("POST", "/json", body=b"[" * 100_000, headers=headers)
    assert not any(record.exc_info for record in caplog.records)


def test_an_unknown_path_is_not_found(client: HttpClient) -> None:
    with pytest.raises(SatchelError, match="GET /nowhere: not found") as caught:
        client.get_json("/nowhere")
    assert caught.value.wire_code == "not-found"


def test_a_wrong_method_is_a_usage_error(client: HttpClient) -> None:
    with pytest.raises(UsageError, match="method not allowed"):
        client.get_json("/echo")


def test_a_big_body_passes(client: HttpClient) -> None:
    body = os.urandom(60 << 20)
    assert client.post_bytes("/echo", body) == body


def test_a_body_that_is_too_big_is_refused_unread(client: HttpClient, desk: Desk) -> None:
    with pytest.raises(UsageError, match="HTTP status 413"):
        client.post_bytes("/echo", bytes(MAX_BODY + 1))
    assert desk.calls == 0
    assert client.post_bytes("/echo", b"next") == b"next"


def test_a_body_of_the_limit_passes(desk: Desk, short_path: Path) -> None:
    with (
        serve(desk.app, short_path / "desk", threads=1, max_body=10) as server,
        HttpClient(server.path) as client,
    ):
        assert client.post_bytes("/echo", bytes(10)) == bytes(10)
        with pytest.raises(UsageError):
            client.post_bytes("/echo", bytes(11))


def test_a_chunked_body_that_is_too_big_is_refused(server: Server, desk: Desk) -> None:
    connection = UnixConnection(server.path)
    with contextlib.suppress(BrokenPipeError):
        connection.request("POST", "/echo", body=iter([bytes(1 << 20)] * 90), encode_chunked=True)
    assert connection.getresponse().status == 413
    assert desk.calls == 0
    connection.close()


def test_as_many_requests_run_as_there_are_threads(desk: Desk, client: HttpClient) -> None:
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(client.get_json, "/wait") for _ in range(4)]
        for _ in waiting:
            assert desk.entered.acquire(timeout=60)
        late = pool.submit(client.post_bytes, "/echo", b"late")
        time.sleep(0.2)
        assert not late.done()
        desk.go.set()
        assert [future.result(60) for future in waiting] == [[]] * 4
        assert late.result(60) == b"late"


def test_many_callers_get_their_own_answers(client: HttpClient) -> None:
    def call(number: int) -> bool:
        body = number.to_bytes(8, "big") * 1000
        return all(client.post_bytes("/echo", body) == body for _ in range(20))

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(call, range(12)))


def test_a_slow_sender_holds_no_thread(desk: Desk, short_path: Path) -> None:
    with serve(desk.app, short_path / "desk", threads=1, max_body=100) as server:
        slow = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        slow.connect(str(server.path))
        slow.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123")
        with HttpClient(server.path) as client:
            assert client.post_bytes("/echo", b"x", timeout=60) == b"x"
        slow.close()


def test_a_slow_reader_holds_no_thread(desk: Desk, short_path: Path) -> None:
    with serve(desk.app, short_path / "desk", threads=1, max_body=MAX_BODY) as server:
        slow = UnixConnection(server.path)
        slow.request("POST", "/echo", body=bytes(10 << 20))
        slow.getresponse()
        with HttpClient(server.path) as client:
            assert client.post_bytes("/echo", b"x", timeout=60) == b"x"
        slow.close()


def test_an_answer_is_streamed(desk: Desk, server: Server) -> None:
    connection = UnixConnection(server.path)
    connection.request("GET", "/stream")
    answer = connection.getresponse()
    assert answer.read1() == b"first"
    assert not desk.closed.is_set()
    desk.go.set()
    assert len(answer.read()) == 400 * 65536
    assert desk.closed.wait(60)
    connection.close()


def test_a_stream_whose_client_goes_is_closed(desk: Desk, server: Server) -> None:
    connection = UnixConnection(server.path)
    connection.request("GET", "/stream")
    connection.getresponse().read1()
    connection.close()
    desk.go.set()
    assert desk.closed.wait(60)


def test_close_lets_running_requests_end(desk: Desk, server: Server, client: HttpClient) -> None:
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(client.get_json, "/wait")
        assert desk.entered.acquire(timeout=60)
        closing = pool.submit(server.close, 100.0)
        assert eventually(lambda: not server.path.exists())
        desk.go.set()
        assert running.result(60) == []
        closing.result(60)


def test_close_cuts_what_does_not_end(
    desk: Desk, server: Server, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.get_json, "/wait")
        assert desk.entered.acquire(timeout=60)
        server.close(grace=0.1)
        with pytest.raises(PeerUnreachable):
            running.result(60)
    assert "1 requests run on" in caplog.text


def test_close_leaves_no_thread_descriptor_or_socket(desk: Desk, short_path: Path) -> None:
    path = short_path / "desk"
    threads, descriptors = threading.active_count(), len(list(DESCRIPTORS.iterdir()))
    for _ in range(3):
        with serve(desk.app, path, threads=4, max_body=100) as server, HttpClient(path) as client:
            client.post_bytes("/echo", b"x")
            server.close()
            server.close()
    assert eventually(lambda: threading.active_count() <= threads)
    assert eventually(lambda: len(list(DESCRIPTORS.iterdir())) <= descriptors)
    assert not path.exists()


def test_close_leaves_the_socket_of_a_successor(desk: Desk, short_path: Path) -> None:
    path = short_path / "desk"
    first = serve(desk.app, path, threads=1, max_body=100)
    path.unlink()
    with serve(desk.app, path, threads=1, max_body=100), HttpClient(path) as client:
        first.close()
        assert client.post_bytes("/echo", b"x") == b"x"
