# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The local port as curl and a browser see it."""

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from client.fronts import open_front
from client.fronts import proxy as proxies
from client.fronts.origin import ServiceOrigin
from client.fronts.proxy import Proxy
from client.platform.settings import HOME
from client.session.journal import Journal
from client.session.session import Session
from replay import Operation
from replay.adapters import http
from satchel.errors import ConflictError, UnsupportedError
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess, silence
from tests.http_rules import assert_rules_hold
from tests.needs import requires


def respond(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def echo(operation: Operation) -> bytes:
    """A service that answers with the head of the request that it got, and how long its body is."""
    head, _, body = operation.payload.partition(b"\r\n\r\n")
    line, *headers = head.decode("latin-1").split("\r\n")
    method, target, _ = line.split(" ", 2)
    seen = {"method": method, "target": target, "headers": headers, "body": len(body)}
    answer = respond("200 OK", json.dumps(seen).encode(), "Content-Type: application/json")
    return http.normalise(answer, operation)


class Bench:
    """A proxy of a session with one replica."""

    def __init__(self) -> None:
        self.session = Session(Journal(None, None), stateful=False, response_seconds=60.0)
        self.replica = InProcess(HOME, stateful=False)
        self.replica.says = echo
        self.session.add(self.replica, OperationNumber(0))
        self.proxy = Proxy(self.session)
        self.url = f"http://127.0.0.1:{self.proxy.port}"

    def answers(self, answer: bytes) -> None:
        self.replica.says = lambda operation: http.normalise(answer, operation)

    def close(self) -> None:
        self.session.close()
        self.proxy.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def curl(*argv: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["curl", "-sS", "--max-time", "20", "--noproxy", "*", *argv],
        input=data,
        capture_output=True,
        check=False,
        timeout=30,
    )


pytestmark = requires("curl")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_every_method_reaches_the_service(bench: Bench, method: str) -> None:
    seen = json.loads(curl("-X", method, f"{bench.url}/notes").stdout)
    assert (seen["method"], seen["target"]) == (method, "/notes")


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a//b///c",
        "//double",
        "/a%2Fb",
        "/search?q=a%2Fb&q=%C3%BC+x&empty=",
        "/a/../b?x=/../",
        "/100%25",
        "/notes/",
        "/static/app.js?v=1;2",
    ],
)
def test_a_target_reaches_the_service_as_it_was_sent(bench: Bench, target: str) -> None:
    seen = json.loads(curl("--path-as-is", f"{bench.url}{target}").stdout)
    assert seen["target"] == target


def test_headers_reach_the_service_and_those_of_the_connection_do_not(bench: Bench) -> None:
    seen = json.loads(
        curl(
            *("-H", "X-Word: two words", "-H", "Cookie: a=1; b=2", "-H", "Accept-Language: de"),
            *("-H", "Connection: keep-alive, x-mine", "-H", "X-Mine: 1"),
            *("-H", "X-Satchel-Time: 5", "-u", "anna:secret"),
            f"{bench.url}/",
        ).stdout
    )
    headers = [header.lower() for header in seen["headers"]]
    assert "x-word: two words" in headers
    assert "cookie: a=1; b=2" in headers
    assert any(header.startswith("authorization: basic") for header in headers)
    assert not any(header.startswith("x-mine") for header in headers)
    assert "connection: close" in headers
    assert "x-satchel-time: 5" not in headers
    assert f"host: 127.0.0.1:{bench.proxy.port}" in headers


def raw(port: int, *lines: str) -> bytes:
    """All that a program gets that sends exactly these lines, and an empty one."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_headers_reach_the_service_as_they_came(bench: Bench) -> None:
    """WSGI has no names with an underscore, and one header of each name."""
    came = ["api_key: x", "Cookie: a=1", "Cookie: b=2", "X-Forwarded-For: 192.0.2.1"]
    came += ["X-Forwarded-Proto: https", "Forwarded: for=192.0.2.1", "X-CaSe: 1", "X-Two: a, b"]
    host = f"127.0.0.1:{bench.proxy.port}"
    said = raw(bench.proxy.port, f"GET http://{host}/a?b HTTP/1.1", f"Host: {host}", *came)
    seen = json.loads(said.partition(b"\r\n\r\n")[2])
    assert seen["target"] == "/a?b"
    assert [line for line in seen["headers"] if line in came] == came
    assert [line for line in seen["headers"] if line.lower().startswith("host")] == [
        f"Host: {host}"
    ]
    said = raw(bench.proxy.port, "GET http://evil.example/ HTTP/1.1", f"Host: {host}")
    assert said.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "notes.localhost:{port}", "notes-1.localhost:{port}"]
)
def test_a_program_that_says_a_part_of_what_browsers_say_is_none(bench: Bench, host: str) -> None:
    """Node.js 18 does so, and got 403."""
    own = Proxy(bench.session, origin=ServiceOrigin("notes", "notes-1.localhost"))
    lines = ["accept: */*", "accept-language: *", "sec-fetch-mode: cors", "user-agent: node"]
    said = raw(own.port, "GET / HTTP/1.1", f"host: {host.format(port=own.port)}", *lines)
    own.close()
    assert said.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /\u00fc HTTP/1.1", "Host: {host}"], 400),
        (["GET / HTTP/1.1", "Host: {host}", "Host: {host}"], 400),
        (["GET / HTTP/1.1"], 400),
        (["GET / HTTP/1.1", "Host: {host}", "X : y"], 400),
        (["GET / HTTP/2.0", "Host: {host}"], 505),
        (["GET / HTTP/1.1", "Host: {host}", "X: " + "y" * 70_000], 431),
        (["POST / HTTP/1.1", "Host: {host}", "Content-Length: 1", "Content-Length: 2"], 400),
        (["POST / HTTP/1.1", "Host: {host}", "Content-Length: 1"], 400),
        (["POST / HTTP/1.1", "Host: {host}", "Transfer-Encoding: gzip"], 501),
        (["POST / HTTP/1.1", "Host: {host}", "Content-Length: 999999999"], 413),
    ],
)
def test_a_request_that_is_none_is_told_so(bench: Bench, lines: list[str], status: int) -> None:
    port = bench.proxy.port
    said = raw(port, *(line.format(host=f"127.0.0.1:{port}") for line in lines))
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close" in head
    assert json.loads(body)["code"] == "usage"
    assert bench.session.last == 0


def test_each_rule_of_http_holds_at_the_port(bench: Bench) -> None:
    assert_rules_hold(bench.proxy.port, "/", lambda: int(bench.session.last))


def test_the_response_is_the_service_s_with_who_answered(bench: Bench) -> None:
    bench.answers(
        respond("418 I'm a teapot", b"short", "Set-Cookie: a=1", "Set-Cookie: b=2", "X-Word: \xe9")
    )
    shown = curl("-i", f"{bench.url}/").stdout
    head, _, body = shown.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    assert lines[0].split()[1] == "418"
    assert body == b"short"
    assert [line for line in lines if line.startswith("Set-Cookie")] == [
        "Set-Cookie: a=1",
        "Set-Cookie: b=2",
    ]
    assert "X-Satchel-Operation: 1" in lines
    assert "X-Satchel-Leader: home" in lines
    assert not any(line.lower().startswith("content-type") for line in lines)


def test_head_has_the_length_and_no_body(bench: Bench) -> None:
    bench.replica.says = lambda operation: http.normalise(
        b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n", operation
    )
    shown = curl("-I", f"{bench.url}/big")
    assert shown.returncode == 0
    assert b"Content-Length: 12345" in shown.stdout
    again = curl("-I", f"{bench.url}/big")
    assert b"200" in again.stdout.split(b"\r\n")[0]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_an_answer_without_a_body_is_one(bench: Bench, status: str) -> None:
    bench.replica.says = lambda operation: http.normalise(
        f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode(), operation
    )
    shown = curl("-i", f"{bench.url}/", f"{bench.url}/")
    assert shown.returncode == 0
    assert shown.stdout.lower().count(b"etag: x") == 2


def test_big_bodies_go_through_in_both_directions(bench: Bench) -> None:
    body = bytes(range(256)) * (20 << 12)
    bench.replica.says = lambda op: http.normalise(
        respond("200 OK", op.payload.partition(b"\r\n\r\n")[2]), op
    )
    answer = curl("--data-binary", "@-", "-H", "Content-Type: a/b", f"{bench.url}/", data=body)
    assert answer.stdout == body
    chunked = curl("-T", "-", "-H", "Transfer-Encoding: chunked", f"{bench.url}/", data=body)
    assert chunked.stdout == body


def test_a_body_beyond_the_limit_is_refused_and_is_no_operation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "MAX_REQUEST_BYTES", 1000)
    small = Proxy(bench.session)
    try:
        url = f"http://127.0.0.1:{small.port}/"
        refused = curl("-i", "--data-binary", "@-", url, data=b"x" * 1001)
        assert b" 413 " in refused.stdout.split(b"\r\n")[0] + b" "
        assert b" 200 " in curl("-i", "--data-binary", "@-", url, data=b"x" * 1000).stdout
        assert bench.session.last == 1
    finally:
        small.close()


def test_an_upgrade_is_refused_and_told_what_can_be_done(bench: Bench) -> None:
    upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: websocket")
    shown = curl("-i", *upgrade, f"{bench.url}/ws")
    assert b" 501 " in shown.stdout.split(b"\r\n")[0]
    fault = json.loads(shown.stdout.partition(b"\r\n\r\n")[2])
    assert "websocket" in fault["what"]
    assert "websockets = true" in fault["fix"]
    assert bench.session.last == 0
    assert curl("--http2", f"{bench.url}/").stdout.startswith(b"{")
    assert bench.session.last == 1


def test_an_answer_that_is_too_large_says_how_large_it_may_be(bench: Bench) -> None:
    bench.answers(b"")  # what the agent says of one
    shown = curl("-i", f"{bench.url}/")
    assert b" 502 " in shown.stdout.split(b"\r\n")[0]
    assert b"more than 64 MiB" in shown.stdout
    assert b"A carried service" in shown.stdout


def test_silence_is_an_error_that_says_what_to_do(bench: Bench) -> None:
    bench.session._response_seconds = 0.3
    bench.replica.fault = silence("home")
    shown = curl("-i", f"{bench.url}/")
    assert b" 503 " in shown.stdout.split(b"\r\n")[0] + b" "
    fault = json.loads(shown.stdout.partition(b"\r\n\r\n")[2])
    assert fault["code"] == "unavailable"
    assert "home does not answer" in fault["why"]
    assert b"X-Satchel-Operation" not in shown.stdout


def test_when_the_session_ends_a_request_is_answered_with_the_reason(bench: Bench) -> None:
    bench.session.close()
    answer = httpx2.get(bench.url, timeout=60, trust_env=False)
    assert answer.json()["what"] == "the session has ended"


def test_a_replica_that_answers_with_garbage_is_an_error(bench: Bench) -> None:
    bench.replica.says = lambda operation: b"\x00garbage"
    answer = httpx2.get(bench.url, timeout=60, trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (422, "integrity")


def request(bench: Bench, *lines: str, method: str = "GET") -> int:
    """The status that a request with exactly these headers gets."""
    text = "\r\n".join([f"{method} / HTTP/1.1", *lines, "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", bench.proxy.port), 10) as connection:
        connection.sendall(text.encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_only_names_of_this_port_are_served(bench: Bench) -> None:
    port = bench.proxy.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert request(bench, f"Host: {host}") == 200
    before = bench.session.last
    for host in (
        f"evil.example:{port}",
        "evil.example",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{port}",
        f"127.0.0.1:{port + 1}",
        f"192.168.1.5:{port}",
        "",
    ):
        assert request(bench, f"Host: {host}") == 403
    assert request(bench) in (400, 403)
    assert bench.session.last == before


@pytest.mark.parametrize(
    ("lines", "method", "status"),
    [
        ([], "POST", 200),
        (["Origin: http://127.0.0.1:{port}"], "POST", 200),
        (["Origin: http://localhost:{port}", "Sec-Fetch-Site: same-origin"], "POST", 200),
        (["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"], "GET", 200),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], "GET", 200),
        (["Origin: https://evil.example"], "POST", 403),
        (["Origin: https://evil.example"], "OPTIONS", 403),
        (["Origin: null"], "POST", 403),
        (["Origin: http://127.0.0.1:1"], "GET", 403),
        (["Origin: https://127.0.0.1:{port}"], "GET", 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], "GET", 403),
        (["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"], "GET", 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], "POST", 403),
    ],
)
def test_pages_of_other_sites_may_not_use_the_service(
    bench: Bench, lines: list[str], method: str, status: int
) -> None:
    port = bench.proxy.port
    own = [f"Host: 127.0.0.1:{port}", *(line.format(port=port) for line in lines)]
    assert request(bench, *own, method=method) == status


def test_requests_at_once_each_get_their_own_answer(bench: Bench) -> None:
    bench.replica.says = lambda op: http.normalise(respond("200 OK", op.payload.split(b" ")[1]), op)
    wrong: list[str] = []

    def work(name: str) -> None:
        with httpx2.Client(timeout=60, trust_env=False) as client:
            for number in range(20):
                path = f"/{name}/{number}"
                if client.get(bench.url + path).text != path:
                    wrong.append(path)

    workers = [threading.Thread(target=work, args=(str(n),)) for n in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_port_that_is_taken_is_a_conflict(bench: Bench) -> None:
    with pytest.raises(ConflictError, match=f"127.0.0.1:{bench.proxy.port}.*the port is taken"):
        Proxy(bench.session, bench.proxy.port)


def test_a_kind_without_a_front_is_refused(bench: Bench) -> None:
    with pytest.raises(UnsupportedError, match="there are: "):
        open_front("gopher", bench.session, 0)


def test_a_port_is_free_again_at_once(bench: Bench) -> None:
    curl(f"{bench.url}/")
    bench.proxy.close()
    again = Proxy(bench.session, bench.proxy.port)
    assert (
        httpx2.get(f"http://127.0.0.1:{again.port}/", timeout=60, trust_env=False).status_code
        == 200
    )
    again.close()


def test_requests_that_wait_when_the_session_ends_are_answered(bench: Bench) -> None:
    bench.replica.gate.clear()
    answers: list[int] = []
    worker = threading.Thread(
        target=lambda: answers.append(
            httpx2.get(bench.url, timeout=60, trust_env=False).status_code
        )
    )
    worker.start()
    threading.Timer(0.3, bench.session.close).start()
    worker.join(60)
    assert answers == [409]
    bench.replica.gate.set()


def test_the_log_has_what_the_service_got(tmp_path: Path) -> None:
    session = Session(Journal(tmp_path, tmp_path), stateful=True, response_seconds=60)
    replica = InProcess(HOME)
    replica.says = echo
    session.add(replica, OperationNumber(0))
    proxy = Proxy(session)
    curl("-d", "a=1", f"http://127.0.0.1:{proxy.port}/notes?x=%2F")
    logged = session.journal.get(OperationNumber(1))
    assert logged is not None
    assert logged.payload.startswith(b"POST /notes?x=%2F HTTP/1.1\r\n")
    assert logged.payload.endswith(b"\r\n\r\na=1")
    session.close()
    proxy.close()
