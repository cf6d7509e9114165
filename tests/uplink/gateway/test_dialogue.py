# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service begins to ask for one request more before each upload: its description changes, and no
program. The service is a small one of the tests' own."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import Site, WsgiDav
from tests.uplink.gateway.test_holding import put

pytestmark = requires("curl")

LISTING = b"""<d:multistatus xmlns:d="DAV:"><d:response><d:href>/dav/</d:href><d:propstat><d:prop>
<d:resourcetype><d:collection/></d:resourcetype></d:prop><d:status>HTTP/1.1 200 OK</d:status>
</d:propstat></d:response></d:multistatus>"""

BEGINNING = """
[[step]]
method = "POST"
target = "/sessions?for={path}"
done = [201]
take = { session = "header:X-Session" }
"""


class Sessions(BaseHTTPRequestHandler):
    """Takes a file only with the session that was begun for it."""

    begun: dict[str, str]
    files: dict[str, bytes]

    def do_PROPFIND(self) -> None:
        self._say(207, LISTING, "application/xml")

    def do_POST(self) -> None:
        session = f"session-{len(self.begun)}"
        self.begun[session] = self.path.partition("for=")[2]
        self._say(201, b"", session=session)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.removeprefix("/dav")
        if self.begun.get(self.headers.get("X-Session", "")) != path:
            self._say(403, b"begin a session")
            return
        self.files[path] = content
        self._say(201, b"")

    def log_message(self, *_: object) -> None:
        pass

    def _say(self, status: int, body: bytes, kind: str = "text/plain", session: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", kind)
        if session:
            self.send_header("X-Session", session)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def cloud(short_path: Path) -> Iterator[Site]:
    handler = type("Handler", (Sessions,), {"begun": {}, "files": {}})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    made = Site(WsgiDav(short_path, short_path, port=http.server_address[1]), short_path)
    (short_path / "descriptions").mkdir()
    try:
        made.start()
        made.hold()
        yield made
    finally:
        made.stop()
        http.shutdown()
        thread.join()
        http.server_close()


def test_a_changed_description_is_all_that_a_changed_service_needs(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "a", b"content") == 201
    cloud.flush()
    assert cloud.states() == {"failed": 1}
    built_in = Path(__file__).parents[3] / "uplink" / "policy" / "services" / "webdav.toml"
    head, step, rest = built_in.read_text().partition("[[step]]")
    changed = head + BEGINNING + step + '\nheaders = { X-Session = "{session}" }' + rest
    (cloud.folder / "descriptions" / "webdav.toml").write_text(changed)
    cloud.flush(failed=True)
    assert cloud.states() == {"confirmed": 1}
