# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service that asks the machine for time and randomness: `asking.py PORT [CERTIFICATE KEY]`."""

import json
import os
import secrets
import sqlite3
import ssl
import sys
import threading
import time
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(handshake() if self.path == "/tls" else moment()).encode()
        self.send_response_only(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def moment() -> dict[str, object]:
    """Time and randomness from every side from which a program of Python gets them."""
    drawn = [os.urandom(100).hex(), str(uuid.uuid4()), secrets.token_hex(16)]
    thread = threading.Thread(target=lambda: drawn.append(os.urandom(8).hex()))
    thread.start()
    thread.join()
    with sqlite3.connect(":memory:") as database:
        query = "select datetime('now'), strftime('%f', 'now')"
        stored = list(database.execute(query).fetchone())
    began = time.perf_counter()
    if "no-sleep" not in sys.argv:
        time.sleep(0.02)
    return {
        "drawn": drawn,
        "time_ns": time.time_ns(),
        "now": datetime.now(UTC).isoformat(),
        "sqlite": stored,
        "slept": min(0.02, time.perf_counter() - began),
        "monotonic": time.monotonic_ns(),
    }


def handshake() -> str:
    """A TLS handshake of this process with itself: the version, or why not."""
    certificate, key = sys.argv[2:4]
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=certificate)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname="inside")
    theirs = server.wrap_bio(there, back, server_side=True)
    try:
        while not (shake(ours) & shake(theirs)):
            pass
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return str(ours.version())


def shake(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
