# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that curl signs one by one, as S3 asks for, at a small server of the tests' own that
keeps what came. test_s3.py has a real one."""

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.needs import requires
from tests.repository.tree import ROOT
from tests.uplink.gateway.site import Site, WsgiDav

pytestmark = requires("curl")

HOST = "127.0.0.2"
LIST = b"""<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>
<IsTruncated>false</IsTruncated><Contents><Key>a b/c</Key><Size>1</Size></Contents>
</ListBucketResult>"""


@dataclass
class Came:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Bucket:
    """url: of the server; came: requests, in order"""

    cloud: Site
    url: str
    came: list[Came] = field(default_factory=list)

    def curl(
        self, *words: str, path: str, secret: str = "secret", uplink: bool = True
    ) -> tuple[int, bytes]:
        proxy = ["-x", f"http://127.0.0.1:{self.cloud.port}"] if uplink else []
        place = self.cloud.folder / "said"
        place.unlink(missing_ok=True)
        done = subprocess.run(
            [
                *("curl", "-s", "--path-as-is", "-o", str(place), "-w", "%{http_code}", *proxy),
                *("--aws-sigv4", "aws:amz:nowhere:s3", "-u", f"key:{secret}", *words),
                *("-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", self.url + path),
            ],
            check=True, capture_output=True, text=True, timeout=60,
            env={"SATCHEL_UPLINK": "background", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        return int(done.stdout), place.read_bytes() if place.exists() else b""


@pytest.fixture
def bucket(short_path: Path) -> Iterator[Bucket]:
    came: list[Came] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            came.append(Came(self.requestline, dict(self.headers.items()), body))
            known = self.headers.get("If-None-Match") == '"etag"'
            said = LIST if "list-type" in self.path else b"content"
            self.send_response(304 if known else 200)
            self.send_header("ETag", '"etag"')
            if not known:
                self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(b"" if known else said)

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    server = WsgiDav(short_path, short_path, port=http.server_address[1])
    url = f"http://{HOST}:{server.port}"
    made = Site(server, short_path, service='description = "s3"')
    made.account, made.address = "key:secret", url
    describe_waits(short_path)
    try:
        made.start()
        yield Bucket(made, url, came)
    finally:
        made.stop()
        http.shutdown()
        thread.join()
        http.server_close()


def describe_waits(folder: Path) -> None:
    """Uploads wait for two seconds here."""
    (folder / "descriptions").mkdir()
    text = (ROOT / "uplink" / "policy" / "services" / "s3.toml").read_text()
    assert "waits = 45" in text
    (folder / "descriptions" / "s3.toml").write_text(text.replace("waits = 45", "waits = 2"))


def test_what_a_signature_covers_comes_through_as_it_was_sent(bucket: Bucket) -> None:
    (bucket.cloud.folder / "source").write_bytes(b"content" * 9000)
    put = ("-T", str(bucket.cloud.folder / "source"), "-H", "Accept-Encoding: br", "-H", "Expect:")
    for words, path in (
        ((), "/bucket/a%20b/%c3%BC+~%2Fx"),
        ((), "/bucket/?list-type=2&delimiter=%2f&prefix=a%20b%2F&max-keys=7"),
        (put, "/bucket//twice/../as%20it%20is"),
        ((), "/bucket/x?acl"),
    ):
        for uplink in (False, True):
            assert bucket.curl(*words, path=path, uplink=uplink)[0] == 200
        direct, through = bucket.came[-2:]
        assert through.line == direct.line
        assert through.body == direct.body
        covered = direct.headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0]
        moment = {"x-amz-date", "authorization"}
        sent = {name.lower(): value for name, value in direct.headers.items()}
        got = {name.lower(): value for name, value in through.headers.items()}
        assert {"host", "x-amz-date"} <= set(covered.split(";"))
        assert {n: got.get(n) for n in sent if n not in moment} == {
            n: v for n, v in sent.items() if n not in moment
        }


def test_what_is_kept_is_for_those_who_sign_with_the_secret(bucket: Bucket) -> None:
    asked = "/bucket?delimiter=%2F&list-type=2&prefix="
    for path, first in (("/bucket/a", b"content"), (asked, LIST)):
        assert bucket.curl(path=path) == (200, first)
        before = len(bucket.came)
        assert bucket.curl(path=path) == (200, first)
        assert len(bucket.came) == before
        bucket.curl(path=path, secret="wrong")
        assert len(bucket.came) == before + 1  # the service says what it thinks of that


def test_an_upload_waits_and_is_answered_by_the_service(bucket: Bucket) -> None:
    source = bucket.cloud.folder / "source"
    source.write_bytes(b"mine")
    waiting = threading.Thread(
        target=bucket.curl, args=("-T", str(source)), kwargs={"path": "/bucket/mine"}
    )
    waiting.start()
    waiting.join(0.7)
    assert waiting.is_alive()
    assert not bucket.came
    waiting.join()
    assert [each.body for each in bucket.came] == [b"mine"]
    stats = bucket.cloud.ask("stats")
    assert (stats["waited"], stats["held"]) == (1, 0)


def test_an_upload_with_an_old_signature_does_not_wait(bucket: Bucket) -> None:
    source = bucket.cloud.folder / "source"
    source.write_bytes(b"mine")
    old = ("-T", str(source), "-H", "X-Amz-Date: 20200101T000000Z")
    assert bucket.curl(*old, path="/bucket/mine")[0] == 200
    assert bucket.cloud.ask("stats")["waited"] == 0
