# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate's answer would leave in a browser, and what a browser would tell a surrogate."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from client.fronts import origin
from client.fronts.origin import ServiceOrigin
from client.fronts.proxy import Proxy
from client.platform.limit import Limit
from client.platform.settings import HOME, Policy
from client.session.journal import Journal
from client.session.session import Session
from replay import LongAnswerStart, Operation, Response
from replay.adapters import http
from satchel.ids import OperationNumber
from tests.browser import driven
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


class Page(InProcess):
    """Answers reads as operations."""

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        super().read(operations)
        return [Response(one.number, self.says(one)) for one in operations]


class Hotspot:
    """A session of `notes` with a surrogate that answers at once, and a home behind a gate."""

    def __init__(self, folder: Path, policy: Policy = "all") -> None:
        journal = Journal(folder / "log", folder / "log")
        self.session = Session(
            journal,
            stateful=True,
            response_seconds=20.0,
            limit=Limit.parse("60s,20"),
            policy=policy,
            read_only=lambda operation: True,
        )
        self.home: InProcess = Page(HOME)
        self.near: InProcess = Page("a")
        for replica in (self.home, self.near):
            replica.says = self.say
            self.session.add(replica, OperationNumber(0))
        self.headers: tuple[str, ...] = STICKY
        self.origin = ServiceOrigin.of("notes", folder)
        self.proxy = Proxy(self.session, origin=self.origin)
        self.url = f"http://127.0.0.1:{self.proxy.port}/"
        self.own = {"Host": f"{self.origin.host}:{self.proxy.port}"}
        self.requests: list[bytes] = []

    def say(self, operation: Operation) -> bytes:
        self.requests.append(operation.payload)
        return http.normalise(respond("200 OK", b"<p>page</p>", *self.headers), operation)

    def get(self, **headers: str) -> httpx2.Response:
        return httpx2.get(self.url, headers=self.own | headers, timeout=30, trust_env=False)

    def silence(self) -> None:
        """Home answers nothing, and who waits for it gives up soon."""
        origin.CONFIRM_SECONDS = 0.5
        self.home.gate.clear()

    def speak(self) -> None:
        """Home answers again, and is waited for as long as a slow host takes."""
        origin.CONFIRM_SECONDS = 30.0
        self.home.gate.set()

    def close(self) -> None:
        self.home.gate.set()
        self.session.close()
        self.proxy.close()


@pytest.fixture(params=["all"])
def hotspot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Hotspot]:
    monkeypatch.setattr(origin, "CONFIRM_SECONDS", 30.0)
    made = Hotspot(tmp_path, request.param)
    yield made
    made.close()


def test_what_home_has_not_confirmed_leaves_nothing_in_a_browser(hotspot: Hotspot) -> None:
    hotspot.silence()
    answer = hotspot.get()
    assert answer.headers["X-Satchel-Leader"] == "a"
    assert "Set-Cookie" not in answer.headers
    assert "ETag" not in answer.headers
    assert answer.headers.get_list("Cache-Control") == ["no-store"]
    assert answer.headers["X-Satchel-Withheld"] == "Set-Cookie"
    own = answer.headers.get_list("Content-Security-Policy")
    assert own[:2] == ["script-src 'self'", "frame-ancestors 'none'"]
    (sandbox,) = own[2:]
    assert sandbox.split()[0] == "sandbox"
    assert "allow-same-origin" not in sandbox


@pytest.mark.parametrize("hotspot", ["all", "nearest"], indirect=True)
@pytest.mark.parametrize(
    ("dest", "kind", "status"),
    [
        *[("document", "text/html", 200), ("iframe", "image/svg+xml", 200)],
        *[("script", "text/javascript", 503), ("sharedworker", "text/javascript", 503)],
        *[("empty", "text/html; charset=utf-8", 503), ("empty", "application/json", 200)],
        *[("image", "image/svg+xml", 200), ("style", "text/css", 200)],
    ],
)
def test_what_may_run_in_the_origin_of_the_service_waits_for_home(
    hotspot: Hotspot, dest: str, kind: str, status: int
) -> None:
    hotspot.silence()
    hotspot.headers = (f"Content-Type: {kind}",)
    asked = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": dest}
    answer = hotspot.get(**asked)
    assert answer.status_code == status
    assert status != 200 or "sandbox" in answer.headers["Content-Security-Policy"]
    hotspot.speak()
    assert eventually(lambda: hotspot.session.provisional.count == 0)
    answer = hotspot.get(**asked)
    assert answer.status_code == 200
    waits = status == 503 or dest in ("document", "iframe")
    assert not (waits and "sandbox" in answer.headers["Content-Security-Policy"])


class Streamed(InProcess):
    """Answers at length: in pieces, and its digest at the end."""

    body = respond("200 OK", b"x" * (1 << 20), "Content-Type: text/javascript")

    def execute(self, operations: Sequence[Operation]) -> Iterator[Any]:  # type: ignore[override]
        for operation in operations:
            self.gate.wait(20)
            yield LongAnswerStart(operation.number)
            self.last = operation.number
            yield Response(operation.number, b"", said=hashlib.sha256(self.body).digest())

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        return self.body[after : after + length], after + length >= len(self.body)


@pytest.mark.parametrize("home_is_there", [True, False])
def test_a_long_script_ends_only_when_home_has_ended_it_too(
    hotspot: Hotspot, home_is_there: bool
) -> None:
    """A browser runs nothing of a script that breaks off."""
    for name in (HOME, "a"):
        hotspot.session.drop(name)
        replica = Streamed(name)
        if name == HOME and not home_is_there:
            hotspot.home = replica
            hotspot.silence()
        hotspot.session.add(replica, OperationNumber(0))
    asked = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "script"}
    if home_is_there:
        assert len(hotspot.get(**asked).content) == 1 << 20
    else:
        with pytest.raises(httpx2.RemoteProtocolError):
            hotspot.get(**asked)


def test_a_page_in_the_sandbox_gets_its_pictures_and_no_other_site_does(hotspot: Hotspot) -> None:
    """It has no origin; its Referer says whose it is, and no other site can say that."""
    asked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    page = f"http://{hotspot.own['Host']}/page"
    assert hotspot.get(**asked, Referer=page).status_code == 200
    assert hotspot.get(**asked, Referer=page, Origin="null").status_code == 200
    for other in ("http://other.example/", f"http://{hotspot.own['Host']}.example/", ""):
        assert hotspot.get(**asked, Referer=other).status_code == 403
    foreign = {"Referer": page, "Origin": "http://other.example"}
    assert hotspot.get(**asked, **foreign).status_code == 403


@pytest.mark.parametrize("hotspot", ["all", "nearest"], indirect=True)
def test_what_home_has_confirmed_is_the_service_s_own(hotspot: Hotspot) -> None:
    answer = hotspot.get()  # it waits for home, for the cookie's sake
    assert answer.headers["Set-Cookie"] == "session=stolen"
    assert "immutable" in answer.headers["Cache-Control"]
    assert "frame-ancestors 'none'" in answer.headers.get_list("Content-Security-Policy")


def test_a_service_worker_is_not_installed_before_home_has_its_script(hotspot: Hotspot) -> None:
    hotspot.silence()
    assert hotspot.get(**{"Service-Worker": "script"}).status_code == 503
    hotspot.speak()
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


LEAVES = """
const leave = () => {
  const tries = [
    () => { document.cookie = 'lie=1; max-age=31536000'; },
    () => localStorage.setItem('lie', 1),
    () => sessionStorage.setItem('lie', 1),
    () => indexedDB.open('lie'),
    () => caches.open('lie'),
    () => navigator.serviceWorker.register('/lie.js'),
  ];
  for (const one of tries) { try { Promise.resolve(one()).catch(() => 0); } catch (refused) {} }
};
leave();
setInterval(leave, 20);
document.title = 'it runs';
"""

LEFT = """
const tell = arguments[0];
(async () => tell([
  document.cookie, localStorage.length, (await indexedDB.databases()).length,
  (await caches.keys()).length, (await navigator.serviceWorker.getRegistrations()).length,
]))();
"""


@pytest.mark.nightly
@requires("chromium", "chromedriver", "curl")
@pytest.mark.parametrize("where", ["a page", "a script"])
def test_chromium_keeps_nothing_of_a_script_in_a_lie(
    hotspot: Hotspot, tmp_path: Path, where: str
) -> None:
    """The lie stays open in one window, and tries again whatever is cleared."""
    page = respond("200 OK", b"<p>page</p><script src=/x.js></script>", "Content-Type: text/html")
    lie = b"<p>lie</p><script>" + LEAVES.encode() + b"</script>"

    def say(operation: Operation, truth: bool) -> bytes:
        said = page
        if b"x.js" in operation.payload:
            said = respond(
                "200 OK", b"" if truth else LEAVES.encode(), "Content-Type: text/javascript"
            )
        elif where == "a page" and not truth:
            said = respond("200 OK", lie, "Content-Type: text/html")
        return http.normalise(said, operation)

    hotspot.home.says = lambda operation: say(operation, True)
    hotspot.near.says = lambda operation: say(operation, False)
    url = f"http://{hotspot.own['Host']}/"
    with driven(tmp_path, (600, 400)) as browser:
        if where == "a page":
            hotspot.silence()
            browser.goes_to(url)
            assert eventually(lambda: browser.says("return document.title") == "it runs")
            hotspot.speak()
        else:
            hotspot.near.says, lies = hotspot.home.says, hotspot.near.says
            hotspot.near.says = lambda operation: (
                lies(operation) if b"x.js" in operation.payload else say(operation, True)
            )
            browser.goes_to(url)
        assert eventually(lambda: hotspot.session.tally.quarantined == 1)
        browser.opens_window()
        browser.goes_to(url)
        assert browser.says("return document.querySelector('p').textContent") == "page"
        browser.goes_to(url)  # the first answer cleared everything; the lie tries again
        assert browser.says(LEFT, "async") == ["", 0, 0, 0, 0]


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
    assert any(
        b"Host: %s" % hotspot.origin.host.encode() in request for request in hotspot.requests
    )
