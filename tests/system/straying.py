# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service that counts, and at /moment says what its machine's clock shows: `straying.py PORT`."""

import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    count = 0

    def do_POST(self) -> None:
        Handler.count += 1
        moment = f" at {time.time():.9f}" if self.path == "/moment" else ""
        body = f"{self.count}{moment}".encode()
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
