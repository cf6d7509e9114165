# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The desktop in a session's page: by noVNC in Chromium, and as pages of other sites meet it."""

from __future__ import annotations

import base64
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from client.fronts import desktop_port
from tests import localhost
from tests.browser import NOVNC, Browser
from tests.client.test_desktop import HEIGHT, WIDTH, Bench
from tests.client.test_desktop_viewer import kept
from tests.pages import require_every_look, seen, text
from tests.waiting import eventually
from wire import Page
from wire.http.pages import NOVNC as FOLDER

ASK = (
    "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n"
)

PICTURE = """
const canvas = document.querySelector('#screen canvas');
if (!canvas) return '';
const seen = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
return btoa(String.fromCharCode(...Array.from(seen).filter((_, at) => at % 4 != 3)));
"""


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as made:
        yield made


@pytest.fixture
def page(bench: Bench) -> Iterator[Page]:
    port = desktop_port([bench.front])
    assert port == bench.front.port
    with Page(
        lambda: {"title": "Session of desktop", "sections": []},
        desktop=lambda: socket.create_connection(("127.0.0.1", port)),
    ) as made:
        yield made


class Asking:
    """A WebSocket by hand, as RFC 6455 has it."""

    def __init__(self, page: Page, **headers: str) -> None:
        """As the page's own script does, where headers do not say otherwise."""
        with localhost.client(base_url=f"http://{page.host}:{page.port}") as owner:
            owner.get(page.link)
            self.port = owner.get("/desktop/port").json()["port"]
            cookie = f"satchel-{page.port}={owner.cookies[f'satchel-{page.port}']}"
        ours = {"Origin": f"http://{page.host}:{page.port}", "Cookie": cookie}
        sent = {"Host": f"{page.host}:{self.port}"} | ours | headers
        key = base64.b64encode(os.urandom(16)).decode()
        more = "".join(f"{n}: {v}\r\n" for n, v in sent.items() if n != "Host" and v)
        self.socket = socket.create_connection(("127.0.0.1", self.port), 30)
        self.socket.sendall(ASK.format(host=sent["Host"], key=key, more=more).encode())
        self.stream = self.socket.makefile("rb")
        self.status = int(self.stream.readline().split()[1])
        while self.stream.readline().strip():
            pass

    def say(self, opcode: int, data: bytes, *, final: bool = True) -> None:
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self.socket.sendall(bytes((opcode | final << 7, len(data) | 0x80)) + mask + masked)

    def hear(self) -> tuple[int, bytes]:
        """The next frame; (0, b"") at the end."""
        head = self.stream.read(2)
        if len(head) < 2:
            return 0, b""
        size = head[1]
        if size == 126:
            (size,) = struct.unpack(">H", self.stream.read(2))
        return head[0] & 15, self.stream.read(size)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def test_the_page_has_a_viewer_s_bytes(page: Page) -> None:
    with closing(Asking(page)) as asked:
        assert asked.status == 101
        assert asked.hear() == (BINARY, b"RFB 003.008\n")
        asked.say(BINARY, b"RFB 003", final=False)
        asked.say(PING, b"still there?")
        assert asked.hear() == (PONG, b"still there?")
        asked.say(0, b".008\n")
        assert asked.hear() == (BINARY, b"\1\1")
        asked.say(CLOSE, struct.pack(">H", 1000))
        assert asked.hear()[0] == CLOSE
        assert asked.hear() == (0, b"")


def test_text_and_rubbish_end_it(page: Page) -> None:
    with closing(Asking(page)) as asked:
        asked.hear()
        asked.say(TEXT, b"RFB 003.008\n")
        assert asked.hear() == (CLOSE, struct.pack(">H", 1003) + b"bytes, no text")
    with closing(Asking(page)) as asked:
        asked.hear()
        asked.socket.sendall(b"\xff" * 64)
        assert asked.hear()[0] in (0, CLOSE)
    with closing(Asking(page)) as asked:
        assert asked.status == 101


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": ""},
        {"Host": "evil.example"},
        {"Cookie": ""},
        {"Cookie": "satchel-1=guess"},
        {"Cookie": '"; \\x'},
    ],
    ids=str,
)
def test_whoever_is_not_the_page_gets_no_desktop(page: Page, headers: dict[str, str]) -> None:
    with closing(Asking(page, **headers)) as asked:
        assert asked.status == 403
        assert b"RFB" not in asked.stream.read()


def test_what_is_no_websocket_is_no_way_in(page: Page, bench: Bench) -> None:
    """A page of another site may send any of these without being asked for its origin first."""
    with closing(Asking(page)) as asked:
        port = asked.port
    for said in (b"RFB 003.008\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"A" * (1 << 20)):
        with socket.create_connection(("127.0.0.1", port), 30) as other:
            try:
                other.sendall(said)
                with suppress(OSError):  # it may be refused and gone by now
                    other.shutdown(socket.SHUT_WR)
                answer = other.recv(4096)
            except ConnectionError:
                answer = b""
            assert b"RFB" not in answer
            assert b" 101 " not in answer
    bench.view("key", "a")


def test_without_the_cookie_there_is_no_port_and_no_viewer(page: Page) -> None:
    for path in ("/desktop", "/desktop/port", "/novnc/core/rfb.js"):
        assert localhost.get(f"http://{page.host}:{page.port}{path}").status_code == 403


def test_a_page_without_a_desktop_offers_none() -> None:
    with (
        Page(lambda: {"title": "Here", "sections": []}) as page,
        localhost.client(base_url=f"http://{page.host}:{page.port}") as owner,
    ):
        owner.get(page.link)
        assert owner.get("/view").json()["sections"] == []
        for path in ("/desktop", "/desktop/port", "/novnc/core/rfb.js"):
            assert owner.get(path).status_code == 404
        assert "ws:" not in owner.get("/").headers["content-security-policy"]


def test_without_novnc_the_page_says_what_to_install(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wire.http.pages.NOVNC", tmp_path)
    with localhost.client(base_url=f"http://{page.host}:{page.port}") as owner:
        owner.get(page.link)
        assert "apt install novnc" in owner.get("/desktop").json()["fix"]
        (section,) = owner.get("/view").json()["sections"]
        assert "apt install novnc" in section["facts"]["noVNC"]


def picture(browser: Browser) -> bytes:
    return base64.b64decode(browser.says(PICTURE))


@pytest.mark.nightly
@NOVNC
def test_a_key_typed_in_the_browser_changes_the_screen(
    page: Page, bench: Bench, tmp_path: Path
) -> None:
    assert FOLDER.is_dir()
    with seen(tmp_path / "browser", page.link) as browser:
        assert eventually(lambda: "Show it in this browser" in text(browser), 30.0)
        browser.says("document.querySelector('#sections a').click()")
        assert eventually(lambda: text(browser, "#state") == "Connected", 60.0)
        assert eventually(lambda: set(picture(browser)) == {0}, 30.0)
        browser.press("a")
        assert eventually(lambda: set(picture(browser)) == {0, ord("a")}, 30.0)
        assert picture(browser) == kept(bench.front)
        assert len(picture(browser)) == WIDTH * HEIGHT * 3
        require_every_look(browser, "desktop")
