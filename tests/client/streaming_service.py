# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service in a guest that answers for long: `python3 streaming_service.py PORT`.

/big/N is N MiB of SHA-256, each of the one before, in chunks. /sized/N is the same with its length.
A PUT is answered with the SHA-256 of its body.
/events is two events, the second 3 s after the first.
"""

import hashlib
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def blocks(mebibytes: int) -> Iterator[bytes]:
    """The body of /big/N, in pieces of a MiB."""
    block = b"\0" * 32
    for _ in range(mebibytes):
        block = hashlib.sha256(block).digest()
        yield block * 32768


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        word, _, number = self.path.strip("/").partition("/")
        self.send_response(200)
        if word == "events":
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: first\n\n")
            time.sleep(3.0)
            self.wfile.write(b"data: second\n\n")
        elif word == "sized":
            self.send_header("Content-Length", str(int(number) << 20))
            self.end_headers()
            for block in blocks(int(number)):
                self.wfile.write(block)
        elif word == "big":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for block in blocks(int(number)):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"ok\n")
        self.close_connection = True

    def do_PUT(self) -> None:
        left, found = int(self.headers["Content-Length"]), hashlib.sha256()
        while left and (block := self.rfile.read(min(left, 1 << 16))):
            found.update(block)
            left -= len(block)
        self.close_connection = True
        if left:
            return
        self.send_response(200)
        self.send_header("Content-Length", "64")
        self.end_headers()
        self.wfile.write(found.hexdigest().encode())

    def log_message(self, format: str, *args: object) -> None: ...


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
