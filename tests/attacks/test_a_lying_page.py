# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate's answer would leave in a browser, and what a browser would tell a surrogate."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from client.fronts import origin
from client.fronts.proxy import Proxy
from client.platform.limit import Limit
from client.platform.settings import HOME
from client.session.journal import Journal
from client.session.session import Session
from replay import Operation
from replay.adapters import http
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess
from tests.client.test_proxy import respond
from tests.needs import requires
from tests.waiting import eventually

BROWSER = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none"}

STICKY = (
    "Set-Cookie: session=stolen",
    "Cache-Control: public, max-age=31536000, immutable",
    'ETag: "forever"',
    "Content-Security-Policy: script-src 'self'",
    "Content-Type: text/html",
)

OTHER_PROGRAM = """
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302)
        self.send_header("Set-Cookie", "bank=secret")
        self.send_header("Location", self.path[1:])
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Hotspot:
    """A session of `notes` with a surrogate that answers at once, and a home behind a gate."""

    def __init__(self, folder: Path) -> None:
        journal = Journal(folder / "log", folder / "log")
        self.session = Session(
            journal, stateful=True, response_seconds=20.0, limit=Limit.parse("60s,20")
        )
        self.home, self.near = InProcess(HOME), InProcess("a")
        for replica in (self.home, self.near):
            replica.says = self.say
            self.session.add(replica, OperationNumber(0))
        self.headers: tuple[str, ...] = STICKY
        self.proxy = Proxy(self.session, service="notes")
        self.url = f"http://127.0.0.1:{self.proxy.port}/"
        self.own = {"Host": f"notes.localhost:{self.proxy.port}"}
        self.requests: list[bytes] = []

    def say(self, operation: Operation) -> bytes:
        self.requests.append(operation.payload)
        return http.normalise(respond("200 OK", b"<p>page</p>", *self.headers), operation)

    def get(self, **headers: str) -> httpx.Response:
        return httpx.get(self.url, headers=self.own | headers, timeout=30, trust_env=False)

    def close(self) -> None:
        self.home.gate.set()
        self.session.close()
        self.proxy.close()


@pytest.fixture
def hotspot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hotspot]:
    monkeypatch.setattr(origin, "CONFIRM_SECONDS", 0.5)
    made = Hotspot(tmp_path)
    yield made
    made.close()


def test_what_home_has_not_confirmed_leaves_nothing_in_a_browser(hotspot: Hotspot) -> None:
    hotspot.home.gate.clear()
    answer = hotspot.get()
    assert answer.headers["X-Satchel-Leader"] == "a"
    assert "Set-Cookie" not in answer.headers
    assert "ETag" not in answer.headers
    assert answer.headers.get_list("Cache-Control") == ["no-store"]
    assert answer.headers["X-Satchel-Withheld"] == "Set-Cookie"
    own = answer.headers.get_list("Content-Security-Policy")
    assert own == ["script-src 'self'", "frame-ancestors 'none'"]


def test_what_home_has_confirmed_is_the_service_s_own(hotspot: Hotspot) -> None:
    answer = hotspot.get()  # it waits for home, for the cookie's sake
    assert answer.headers["Set-Cookie"] == "session=stolen"
    assert "immutable" in answer.headers["Cache-Control"]
    assert "frame-ancestors 'none'" in answer.headers.get_list("Content-Security-Policy")


def test_a_service_worker_is_not_installed_before_home_has_its_script(hotspot: Hotspot) -> None:
    hotspot.home.gate.clear()
    assert hotspot.get(**{"Service-Worker": "script"}).status_code == 503
    hotspot.home.gate.set()
    assert eventually(lambda: hotspot.session.provisional.count == 0)
    assert hotspot.get(**{"Service-Worker": "script"}).status_code == 200


def test_a_lie_s_cookie_is_withheld_and_what_was_kept_is_cleared_once(hotspot: Hotspot) -> None:
    hotspot.near.says = lambda operation: http.normalise(
        respond("200 OK", b"<p>lie</p>", "Set-Cookie: session=mine"), operation
    )
    first = hotspot.get()
    assert first.headers.get("Set-Cookie") != "session=mine"
    assert eventually(lambda: hotspot.session.tally.quarantined == 1)
    assert "Clear-Site-Data" not in hotspot.get().headers  # it is no browser
    cleared = [hotspot.get(**BROWSER).headers.get("Clear-Site-Data") for _ in range(3)]
    assert cleared == ['"cache", "cookies", "storage"', None, None]


def test_a_browser_comes_to_the_service_s_own_origin_and_programs_as_they_like(
    hotspot: Hotspot,
) -> None:
    there = {"Host": f"127.0.0.1:{hotspot.proxy.port}", "Cookie": "bank=secret"}
    sent = hotspot.get(**there, **BROWSER)
    assert sent.status_code == 307
    assert sent.headers["Location"] == f"http://{hotspot.own['Host']}/"
    part = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Site": "same-origin"}
    assert hotspot.get(**there, **part).status_code == 403
    assert hotspot.requests == []
    assert hotspot.get(Host=f"127.0.0.1:{hotspot.proxy.port}").status_code == 200
    assert hotspot.get(Host=f"other.localhost:{hotspot.proxy.port}").status_code == 403


@pytest.mark.nightly
@requires("chromium")
def test_chromium_that_another_program_sends_ends_at_the_origin_of_the_service(
    hotspot: Hotspot, tmp_path: Path
) -> None:
    """Debian's Chromium of today keeps cookies of one port from others by itself, so this sees that
    it goes to the origin; the test before sees what becomes of a cookie that comes along."""
    hotspot.headers = ("Content-Type: text/html",)
    argv = [sys.executable, "-c", OTHER_PROGRAM]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            port = int(program.stdout.readline())
            browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]
            browser += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
            browser += ["--no-proxy-server", f"http://127.0.0.1:{port}/{hotspot.url}"]
            done = subprocess.run(browser, capture_output=True, text=True, timeout=60, check=True)
        finally:
            program.terminate()
    assert "<p>page</p>" in done.stdout
    assert hotspot.requests
    assert all(b"secret" not in request for request in hotspot.requests)
    assert any(b"Host: notes.localhost" in request for request in hotspot.requests)
