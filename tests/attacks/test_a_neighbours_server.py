# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Another user of this device has a server at a port of 127.0.0.1, and the person's browser comes
by. It keeps one jar of cookies for all ports of a host (RFC 6265, 8.5), and shows pages in frames.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from client import TcpPort
from client.fronts.origin import ServiceOrigin
from client.fronts.proxy import Proxy
from images import ServedPort
from replay import Operation
from replay.adapters import http
from tests import localhost
from tests.attacks.test_a_lying_page import Hotspot
from tests.browser import driven
from tests.client.test_carried_fronts import KEY
from tests.client.test_desktop_page import ASK
from tests.client.test_proxy import curl, respond
from tests.needs import requires
from tests.replay.test_streams import guest
from tests.waiting import eventually
from wire import Page

TYPED = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}
FRAMED = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}

NOBODY = 65534

FRAME = "return document.querySelector('iframe').contentDocument"
"""What a page may see of its frame: null where another site's is in it, or an error."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class Neighbour(BaseHTTPRequestHandler):
    """Notes what browsers say. Its page shows the address behind `?` in a frame."""

    heard: list[Message]

    def do_GET(self) -> None:
        self.heard.append(self.headers)
        body = f"<iframe src='{self.path.partition('?')[2]}'></iframe>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "bank=secret")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Attack:
    """port: of the neighbour's server; heard: the headers of its visitors"""

    port: int
    heard: list[Message] = field(default_factory=list)

    def lure(self, browser: httpx2.Client, *hosts: str) -> None:
        """Have the browser visit the server under these names of the device."""
        for host in ("127.0.0.1", "localhost", *hosts):
            assert browser.get(f"http://{host}:{self.port}/").status_code == 200

    @property
    def cookies(self) -> list[str]:
        return [said["Cookie"] for said in self.heard if said["Cookie"]]


@pytest.fixture
def neighbour() -> Iterator[Attack]:
    heard: list[Message] = []
    with serving(type("Noting", (Neighbour,), {"heard": heard})) as port:
        yield Attack(port, heard)


@pytest.fixture
def page() -> Iterator[Page]:
    with Page(
        lambda: {"title": "Here", "sections": []},
        actions={"end": pytest.fail},
        desktop=lambda: pytest.fail("the desktop is open"),
    ) as made:
        yield made


def test_no_server_at_another_port_gets_what_opens_a_page(page: Page, neighbour: Attack) -> None:
    with localhost.client(follow_redirects=True) as browser:
        assert browser.get(page.link).status_code == 200
        own = browser.get(f"http://{page.host}:{page.port}/desktop/port").json()
        neighbour.lure(browser)
    stolen = [said for said in neighbour.cookies if "bank" not in said]
    tried = [*stolen, f"satchel-{page.port}=guess"]
    for cookie in tried:
        for host in ("127.0.0.1", "localhost", "guess.localhost"):
            sent = {"Cookie": cookie, "Host": f"{host}:{page.port}"}
            place = f"http://127.0.0.1:{page.port}"
            for path in ("/", "/view", "/desktop", "/desktop/port"):
                assert httpx2.get(place + path, headers=sent).status_code == 403
            assert (
                httpx2.post(f"{place}/act/end", json={"key": "r"}, headers=sent).status_code == 403
            )
            more = f"Origin: http://{host}:{page.port}\r\nCookie: {cookie}\r\n"
            asked = ASK.format(host=f"{host}:{own['port']}", key=KEY, more=more)
            done = curl("--http0.9", f"telnet://127.0.0.1:{own['port']}", data=asked.encode())
            assert b" 101 " not in done.stdout.split(b"\r\n")[0]
    assert stolen == []


def test_a_refusal_does_not_tell_where_the_page_is(page: Page) -> None:
    for headers in ({}, TYPED, FRAMED):
        answer = httpx2.get(f"http://127.0.0.1:{page.port}/", headers=headers)
        assert answer.status_code == 403
        assert page.host not in answer.text + str(answer.headers)


def test_two_pages_have_two_hosts(page: Page) -> None:
    with Page(lambda: {"title": "Other", "sections": []}) as other:
        assert other.host != page.host
        wrong = page.link.replace(f":{page.port}", f":{other.port}")
        assert localhost.get(wrong).status_code == 403


@dataclass
class Front:
    """Of a service that sets a cookie. asked: the heads of the requests that it got"""

    port: int
    origin: ServiceOrigin
    asked: list[str]


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "session=mine")
        self.send_header("Content-Length", "11")
        self.end_headers()
        self.wfile.write(b"<p>page</p>")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def carried(folder: Path) -> Iterator[Front]:
    asked: list[str] = []
    origin = ServiceOrigin.of("jupyter", folder)
    with serving(type("Asked", (Site,), {"asked": asked})) as port, guest(folder, port) as made:
        made.attach()
        with closing(TcpPort(made.relay, ServedPort("http", port, 0), None, origin)) as front:
            yield Front(front.port, origin, asked)


@contextmanager
def replayed(folder: Path) -> Iterator[Front]:
    asked: list[str] = []
    with closing(Hotspot(folder)) as made:

        def say(operation: Operation) -> bytes:
            asked.append(operation.payload.decode("latin-1"))
            headers = ("Set-Cookie: session=mine", "Content-Type: text/html")
            return http.normalise(respond("200 OK", b"<p>page</p>", *headers), operation)

        made.home.says = made.near.says = say
        with closing(Proxy(made.session, origin=made.origin)) as front:
            yield Front(front.port, made.origin, asked)


@pytest.fixture(params=[carried, replayed])
def front(request: pytest.FixtureRequest, short_path: Path) -> Iterator[Front]:
    with request.param(short_path) as made:
        yield made


def test_cookies_go_neither_to_a_service_nor_from_it(front: Front, neighbour: Attack) -> None:
    with localhost.client(follow_redirects=True) as browser:
        neighbour.lure(browser)
        for name in ("127.0.0.1", "localhost", f"{front.origin.service}.localhost"):
            answer = browser.get(f"http://{name}:{front.port}/tree?a=b", headers=TYPED)
            assert answer.text == "<p>page</p>"
            assert str(answer.url) == f"http://{front.origin.host}:{front.port}/tree?a=b"
        assert "session=mine" in front.asked[-1]
        neighbour.heard.clear()
        neighbour.lure(browser, f"{front.origin.service}.localhost", "other.localhost")
    assert all("secret" not in request for request in front.asked)
    assert all("session" not in cookie for cookie in neighbour.cookies)


def test_a_service_s_place_is_the_same_in_the_next_session(front: Front, short_path: Path) -> None:
    again = ServiceOrigin.of(front.origin.service, short_path)
    assert again == front.origin
    assert (short_path / "origin-key").stat().st_mode & 0o777 == 0o600
    assert ServiceOrigin.of("other", short_path).host.partition("-")[2] not in again.host
    (short_path / "origin-key").write_bytes(bytes(range(32)))
    assert (
        ServiceOrigin.of("notes", short_path).host
        == "notes-53ecf36184f2aff240a0b0182e4b281b.localhost"
    )
    (short_path / "origin-key").write_bytes(b"short")
    assert ServiceOrigin.of(front.origin.service, short_path) != again
    long = ServiceOrigin.of("a" * 63, short_path).host
    assert len(long.partition(".")[0]) <= 63


@requires("root", "curl", "setpriv")
def test_another_user_is_not_told_where_a_service_is(front: Front) -> None:
    """His server would be there, at another port."""
    headers = [word for name, value in TYPED.items() for word in ("-H", f"{name}: {value}")]
    argv = ["curl", "-si", "--max-time", "20", *headers, f"http://127.0.0.1:{front.port}/"]
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    said = subprocess.run([*as_nobody, *argv], capture_output=True, check=True).stdout
    assert said.startswith(b"HTTP/1.1 403 ")
    assert front.origin.host.encode() not in said
    said = subprocess.run(argv, capture_output=True, check=True).stdout
    assert said.startswith(b"HTTP/1.1 307 ")
    assert front.origin.host.encode() in said


def test_no_page_of_another_site_has_it_in_a_frame(front: Front, page: Page) -> None:
    own = f"http://{front.origin.host}:{front.port}/"
    for url in (own, f"http://127.0.0.1:{front.port}/"):
        for kind in ("iframe", "frame", "embed", "object"):
            assert localhost.get(url, headers=FRAMED | {"Sec-Fetch-Dest": kind}).status_code == 403
    assert front.asked == []
    for headers in ({}, TYPED):
        shown = localhost.get(own, headers=headers)
        assert "frame-ancestors '" in shown.headers["Content-Security-Policy"]
        assert shown.text == "<p>page</p>"
    with localhost.client(follow_redirects=True) as browser:
        assert "frame-ancestors 'none'" in browser.get(page.link).headers["Content-Security-Policy"]
        assert browser.get(f"http://{page.host}:{page.port}/", headers=FRAMED).status_code == 403


def test_programs_go_on_at_the_address_that_is_printed(front: Front) -> None:
    for name in ("127.0.0.1", "localhost", front.origin.host):
        done = curl(f"http://{name}:{front.port}/", "-H", "sec-fetch-mode: cors")
        assert done.stdout == b"<p>page</p>"


@pytest.mark.nightly
@requires("chromium", "chromedriver", "curl")
def test_chromium_opens_both_and_the_neighbour_gets_nothing(
    front: Front, page: Page, neighbour: Attack, tmp_path: Path
) -> None:
    (tmp_path / "browser").mkdir()
    with driven(tmp_path / "browser", (800, 600)) as browser:
        browser.goes_to(page.link)
        assert eventually(lambda: browser.says("return document.title") != "", 30.0)
        assert browser.says("return location.host") == f"{page.host}:{page.port}"
        browser.goes_to(f"http://127.0.0.1:{front.port}/tree")
        assert browser.says("return location.host") == f"{front.origin.host}:{front.port}"
        assert browser.says("return document.body.textContent") == "page"
        browser.goes_to(f"http://127.0.0.1:{neighbour.port}/")
        assert all(page.host not in str(said) for said in neighbour.heard)
        asked = len(front.asked)
        for framed in (
            f"http://{page.host}:{page.port}/",
            f"http://127.0.0.1:{front.port}/",
            f"http://{front.origin.host}:{front.port}/",
        ):
            for host in ("127.0.0.1", "localhost", "other.localhost"):
                browser.goes_to(f"http://{host}:{neighbour.port}/?{framed}")
                assert eventually(lambda: browser.says(FRAME) is None, 30.0)
        assert len(front.asked) == asked
    assert neighbour.heard
    assert all("satchel" not in cookie and "session" not in cookie for cookie in neighbour.cookies)
