# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service below /dav that answers everything and records the requests, and uplink before it."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.uplink.gateway.site import Site, WsgiDav


class Open(BaseHTTPRequestHandler):
    """A service of the person's own network, without a password."""

    protocol_version = "HTTP/1.1"
    came: list[str]

    def do_GET(self) -> None:
        self.close_connection = not (self._chunks() and self._length())
        if self.close_connection:
            return
        told = self.headers.get("Destination", "")
        self.came.append(f"{self.command} {self.path} {told}".strip())
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _chunks(self) -> bool:
        """Whether the body is whole."""
        if self.headers.get("Transfer-Encoding") is None:
            return True
        while line := self.rfile.readline():
            size = int(line.partition(b";")[0], 16)
            self.rfile.read(size + 2 if size else 0)
            if size == 0:
                break
        else:
            return False
        while (line := self.rfile.readline()) and line.strip():
            pass
        return bool(line)

    def _length(self) -> bool:
        size = int(self.headers.get("Content-Length", "0"))
        return len(self.rfile.read(size)) == size

    do_POST = do_PUT = do_DELETE = do_MOVE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Uplink's port, and what reaches the service `cloud`."""
    came: list[str] = []
    handler = type("Came", (Open,), {"came": came})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/dav"
        made = Site(WsgiDav(folder, folder), folder, address=url)
        try:
            made.start()
            yield made.port, came
        finally:
            made.stop()
            server.shutdown()
            thread.join()
