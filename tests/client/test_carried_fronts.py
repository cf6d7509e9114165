# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The fronts of carried services, as curl, a browser and a WebSocket see them: real services with
a real agent, whose carrier is cut as a move does it."""

import base64
import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client import TcpPort
from client.fronts import desktop_port
from client.fronts.ports import LocalPort, only_local, served
from images import ServedPort
from satchel.errors import SatchelError, UnsupportedError, UsageError
from tests.client.test_proxy import curl
from tests.http_rules import assert_rules_hold
from tests.needs import requires
from tests.replay.test_streams import Guest, guest

pytestmark = requires("curl")

KEY = base64.b64encode(b"sixteen bytes ..").decode()


class Site(BaseHTTPRequestHandler):
    """Answers with the request; a WebSocket at /ws says everything twice."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self._socket()
            return
        size = int(self.headers.get("Content-Length", "0"))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(self._chunks())
        else:
            body = self.rfile.read(size)
        said = {"method": self.command, "path": self.path, "host": self.headers["Host"]}
        answer = json.dumps(said | {"sha256": hashlib.sha256(body).hexdigest()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_GET  # noqa: N815

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0] or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def _socket(self) -> None:
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.close_connection = True
        while data := self.connection.recv(1 << 16):
            self.connection.sendall(data * 2)

    def log_message(self, *_: object) -> None:
        pass


class Served8080:
    """The front of that site, and its guest."""

    def __init__(self, made: Guest, front: TcpPort, asked: list[str]) -> None:
        self.guest, self.front, self.asked = made, front, asked
        self.port = front.port

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), 60) as connection:
            yield connection

    def says(self, *requests: bytes) -> bytes:
        """All that a program gets that says this and closes its side."""
        with self.connected() as connection:
            for request in requests:
                connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def request(self, path: str, *more: str, host: str = "", method: str = "GET") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *more]
        return "\r\n".join([*lines, "", ""]).encode()


@pytest.fixture
def site(short_path: Path) -> Iterator[Served8080]:
    asked: list[str] = []
    handler = type("Asked", (Site,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with guest(short_path, server.server_port) as made:
                made.attach()
                front = TcpPort(made.relay, ServedPort("http", server.server_port, 0))
                yield Served8080(made, front, asked)
                front.close()
        finally:
            server.shutdown()
            thread.join()


def test_requests_reach_the_service_as_they_are(site: Served8080) -> None:
    said = json.loads(curl(f"http://localhost:{site.port}/a%2Fb?c=%20").stdout)
    assert said["path"] == "/a%2Fb?c=%20"
    assert said["host"] == f"localhost:{site.port}"
    body = bytes(range(256)) * (4 << 12)
    wanted = hashlib.sha256(body).hexdigest()
    for words in (("-X", "PUT"), ("-H", "Transfer-Encoding: chunked")):
        done = curl(*words, "--data-binary", "@-", f"{site.front.url}", data=body)
        assert json.loads(done.stdout)["sha256"] == wanted


def test_requests_of_one_connection_are_each_looked_at(site: Served8080) -> None:
    good = site.request("/one", "Content-Length: 3", method="POST") + b"abc"
    with site.connected() as connection:
        connection.sendall(good)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(good[:20])
        connection.sendall(good[20:] + site.request("/two"))
        answers = b""
        while answers.count(b"sha256") < 2:
            answers += connection.recv(65536)
        connection.sendall(site.request("/bad", host="evil.example"))
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(65536) == b""
    assert site.asked == ["POST /one", "POST /one", "GET /two"]


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("X-Nothing: 1", "evil.example:{port}"),
        ("X-Nothing: 1", "127.0.0.1:1"),
        ("Origin: https://evil.example", ""),
        ("Origin: null", ""),
        ("Sec-Fetch-Site: cross-site", ""),
        ("Origin: http://127.0.0.1:{port}\r\nOrigin: https://evil.example", ""),
    ],
)
def test_pages_of_other_sites_may_not_use_it(site: Served8080, header: str, host: str) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", f"Sec-WebSocket-Key: {KEY}")
    for more in ((), upgrade):
        lines = (header.format(port=site.port), *more)
        said = site.says(site.request("/", *lines, host=host.format(port=site.port)))
        assert said.startswith(b"HTTP/1.1 403 ")
        assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == "access"
    assert site.asked == []


@pytest.mark.parametrize(
    "noise",
    [
        b"SET a b\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * (80 << 10) + b"\r\nHost: {host}\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {host}\r\nX: y\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\nHost: {host}\n\n",
        b"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    ],
    ids=[
        *("redis", "http2", "tls", "long", "lengths", "coding", "hosts"),
        *("smuggled", "old chunks", "folded", "bare lines", "tunnel"),
    ],
)
def test_what_is_no_request_is_refused(site: Served8080, noise: bytes) -> None:
    said = site.says(noise.replace(b"{host}", b"127.0.0.1:%d" % site.port))
    assert said.startswith(b"HTTP/1.1 400 ")
    assert site.asked == []


def test_each_rule_of_http_holds_at_the_port(site: Served8080) -> None:
    assert_rules_hold(site.port, "/", lambda: len(site.asked), passes=True)


def test_an_answer_to_a_big_refused_upload_is_read(site: Served8080) -> None:
    done = curl(
        *("-i", "-H", "Origin: https://evil.example", "-H", "Expect:", "--data-binary", "@-"),
        site.front.url,
        data=bytes(8 << 20),
    )
    assert b" 403 " in done.stdout.split(b"\r\n")[0]
    assert site.asked == []


def test_a_connection_that_says_nothing_is_no_stream_of_the_guest(site: Served8080) -> None:
    assert site.says() == b""
    assert site.says(b"GET / HT") == b""
    assert site.asked == []
    assert site.guest.relay.counts().open == 0


def test_only_an_answer_101_ends_the_guard(site: Served8080) -> None:
    """It ended with a request for an upgrade, which a service may well not grant."""
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    with site.connected() as connection:
        connection.sendall(site.request("/one", *upgrade))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(site.request("/bad", "Origin: https://evil.example"))
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                said += data
    assert b"evil" not in said.partition(b"\r\n\r\n")[0]
    assert site.asked == ["GET /one"]
    assert site.says(b"\r\n" + site.request("/", *upgrade)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("authority", ["evil.example", "127.0.0.1:1"])
def test_the_authority_of_a_target_counts(site: Served8080, authority: str) -> None:
    said = site.says(site.request(f"http://{authority}/"))
    assert (said[:13], site.asked) == (b"HTTP/1.1 403 ", [])
    own = f"http://127.0.0.1:{site.port}/a"
    assert site.says(site.request(own)).startswith(b"HTTP/1.1 200 ")
    assert len(site.asked) == 1


def test_a_websocket_goes_on_over_the_next_carrier(site: Served8080) -> None:
    own = f"Origin: http://127.0.0.1:{site.port}"
    lines = ("Connection: Upgrade", "Upgrade: websocket", f"Sec-WebSocket-Key: {KEY}", own)
    with site.connected() as connection:
        connection.sendall(site.request("/ws", *lines))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        connection.sendall(b"\x81\x01a\r\n\r\n")
        assert connection.recv(14, socket.MSG_WAITALL) == b"\x81\x01a\r\n\r\n" * 2
        site.guest.attach()
        connection.sendall(b"\x00\xff")
        assert connection.recv(4, socket.MSG_WAITALL) == b"\x00\xff" * 2


PORTS = [ServedPort("http", 8888, 8080), ServedPort("tcp", 22, 0)]


def test_a_local_port_may_be_chosen_for_each_port() -> None:
    def locals_of(*words: str) -> list[tuple[int, int]]:
        found = served("thing", PORTS, map(LocalPort.parse, words))
        return [(one.port, one.local) for one in found]

    assert locals_of() == [(8888, 8080), (22, 0)]
    assert locals_of("9000") == [(8888, 9000), (22, 0)]
    assert locals_of("2222:22") == [(8888, 8080), (22, 2222)]
    assert locals_of("2222:22", "0:8888") == [(8888, 0), (22, 2222)]
    for words in (("1:23",), ("9000", "9001:8888")):
        with pytest.raises(UsageError):
            locals_of(*words)


@pytest.mark.parametrize("text", ["", ":", "a", "1:", ":1", "70000", "1:0", "1:2:3", "-1", "²"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no port"):
        LocalPort.parse(text)


def test_a_replayed_service_has_one_port() -> None:
    assert only_local("notes", []) == 0
    assert only_local("notes", [LocalPort(8080)]) == 8080
    for chosen in ([LocalPort(1, 8080)], [LocalPort(1), LocalPort(2)]):
        with pytest.raises(UsageError, match="has one port"):
            only_local("notes", chosen)


def test_a_front_of_another_version_is_refused(site: Served8080) -> None:
    with pytest.raises(UnsupportedError, match="there are: http, tcp"):
        TcpPort(site.guest.relay, ServedPort("udp", 53, 0))
    assert issubclass(UnsupportedError, SatchelError)


@pytest.mark.parametrize(("guest_port", "shown"), [(5900, True), (5909, True), (22, False)])
def test_a_port_of_vnc_is_the_desktop_of_the_page(
    site: Served8080, guest_port: int, shown: bool
) -> None:
    with contextlib.closing(TcpPort(site.guest.relay, ServedPort("tcp", guest_port, 0))) as front:
        assert desktop_port([site.front, front]) == (front.port if shown else None)
