# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guestbook in one page. It knows nothing of Satchel."""

from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

BOOK = Path("/var/lib/guestbook/book.html")
PAGE = """<!doctype html><title>Guestbook</title>
<form method="post"><input name="name"><input name="text"><button>Sign</button></form>
<ul>
{}</ul>
"""


class Guestbook(BaseHTTPRequestHandler):
    """GET shows the page, POST adds an entry and shows it."""

    def do_GET(self) -> None:
        entries = BOOK.read_text() if BOOK.exists() else ""
        page = PAGE.format(entries).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        fields = {key: escape(values[0]) for key, values in parse_qs(body).items()}
        with BOOK.open("a") as book:
            book.write(f"<li><b>{fields.get('name', '')}</b>: {fields.get('text', '')}</li>\n")
        self.do_GET()


ThreadingHTTPServer(("127.0.0.1", 8080), Guestbook).serve_forever()
