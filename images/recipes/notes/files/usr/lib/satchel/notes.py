# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A notebook: pages for a browser, a JSON API for programs, one SQLite file.

    GET  /?q=WORDS               the list, or what a search finds
    POST /notes                  add: form fields title, text; then back to the list
    GET  /notes/ID               one note, to edit
    POST /notes/ID               edit
    POST /notes/ID/delete        delete
    GET, POST /api/notes         the same as JSON: {"title", "text"}; ?q=WORDS searches
    GET, PUT, DELETE /api/notes/ID
    GET  /export                 everything, as JSON

Every replica that executes the same operations gives the same bytes and has the same file: times
come from the header X-Satchel-Time (nanoseconds since 1970) and random names from X-Satchel-Seed
(0 to 2^64-1), from clock and kernel only where a request has no such header. One thread serves,
in the order of arrival.

The journal is truncated at each commit, not kept: it begins with random bytes.
"""

from __future__ import annotations

import datetime
import os
import random
import sqlite3
import sys
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, redirect, render_template, request
from werkzeug.exceptions import HTTPException

TITLE_LIMIT = 200
TEXT_LIMIT = 64 * 1024
BODY_LIMIT = 256 * 1024
SEARCH_LIMIT = 200
ID_LIMIT = (1 << 63) - 1

SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  text TEXT NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL
)
"""

Note = dict[str, Any]


class Notebook:
    """The SQLite file. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, check_same_thread=False)
        self.database.row_factory = sqlite3.Row
        self.database.execute("PRAGMA journal_mode=TRUNCATE")
        self.database.execute("PRAGMA synchronous=FULL")
        self.database.execute("PRAGMA secure_delete=ON")
        with self.database:
            self.database.execute(SCHEMA)

    def find(self, words: str) -> list[Note]:
        """The notes of which each word is part of the title or the text, newest first."""
        where, values = ["1"], []
        for word in words.split():
            where.append("(title LIKE ? ESCAPE '\\' OR text LIKE ? ESCAPE '\\')")
            values += [_pattern(word)] * 2
        query = f"SELECT * FROM notes WHERE {' AND '.join(where)} ORDER BY modified DESC, id DESC"
        return [dict(row) for row in self.database.execute(query, values)]

    def get(self, number: int) -> Note:
        """That note, or a 404."""
        known = min(number, ID_LIMIT)
        row = self.database.execute("SELECT * FROM notes WHERE id = ?", (known,)).fetchone()
        if row is None:
            abort(404, f"there is no note {number}")
        return dict(row)

    def add(self, title: str, text: str) -> Note:
        """Durable when it returns."""
        now, name = _now_ns(), _random_name()
        with self.database:
            cursor = self.database.execute(
                "INSERT INTO notes (name, title, text, created, modified) VALUES (?, ?, ?, ?, ?)",
                (name, title, text, now, now),
            )
        assert cursor.lastrowid is not None
        return self.get(cursor.lastrowid)

    def edit(self, number: int, title: str, text: str) -> Note:
        """Durable when it returns; a 404 where there is no such note."""
        self.get(number)
        with self.database:
            self.database.execute(
                "UPDATE notes SET title = ?, text = ?, modified = ? WHERE id = ?",
                (title, text, _now_ns(), number),
            )
        return self.get(number)

    def delete(self, number: int) -> None:
        """Durable when it returns; a 404 where there is no such note."""
        self.get(number)
        with self.database:
            self.database.execute("DELETE FROM notes WHERE id = ?", (number,))


def create_app(database: Path) -> Flask:
    """The WSGI application on that file, which is made when it is not there."""
    templates = Path(__file__).resolve().parent / "templates"
    app = Flask(__name__, template_folder=str(templates))
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
    app.jinja_env.filters["moment"] = _moment
    notebook = Notebook(database)
    _add_pages(app, notebook)
    _add_api(app, notebook)
    app.before_request(_refuse_other_sites)
    app.after_request(_date)
    app.register_error_handler(HTTPException, _error)
    return app


def warm(app: Flask) -> None:
    """Execute each kind of read once, so that a checkpoint has templates and code in memory."""
    client = app.test_client()
    for path in ("/", "/?q=a", "/api/notes", "/export", "/notes/0"):
        client.get(path, headers={"X-Satchel-Time": "0", "X-Satchel-Seed": "0"})
    with app.test_request_context():
        render_template("note.html", note={"id": 0, "title": "", "text": "", "modified": 0})


def _add_pages(app: Flask, notebook: Notebook) -> None:
    @app.get("/")
    def index() -> str:
        words = _words()
        return render_template("list.html", notes=notebook.find(words), words=words)

    @app.post("/notes")
    def add() -> Any:
        notebook.add(*_fields(request.form))
        return redirect("/", 303)

    @app.get("/notes/<int:number>")
    def show(number: int) -> str:
        return render_template("note.html", note=notebook.get(number))

    @app.post("/notes/<int:number>")
    def edit(number: int) -> Any:
        notebook.edit(number, *_fields(request.form))
        return redirect("/", 303)

    @app.post("/notes/<int:number>/delete")
    def delete(number: int) -> Any:
        notebook.delete(number)
        return redirect("/", 303)


def _add_api(app: Flask, notebook: Notebook) -> None:
    @app.get("/api/notes")
    def api_list() -> Any:
        return {"notes": notebook.find(_words())}

    @app.post("/api/notes")
    def api_add() -> Any:
        return notebook.add(*_fields(_json())), 201

    @app.get("/api/notes/<int:number>")
    def api_get(number: int) -> Any:
        return notebook.get(number)

    @app.put("/api/notes/<int:number>")
    def api_edit(number: int) -> Any:
        return notebook.edit(number, *_fields(_json()))

    @app.delete("/api/notes/<int:number>")
    def api_delete(number: int) -> Any:
        notebook.delete(number)
        return "", 204

    @app.get("/export")
    def export() -> Any:
        notes = sorted(notebook.find(""), key=lambda note: int(note["id"]))
        return {"version": 1, "notes": notes}


def _words() -> str:
    words = request.args.get("q", "").strip()
    if len(words) > SEARCH_LIMIT:
        abort(400, f"a search has at most {SEARCH_LIMIT} characters")
    return words


def _json() -> Any:
    value = request.get_json(force=True, silent=True)
    if not isinstance(value, dict):
        abort(400, "the body must be a JSON object")
    return value


def _fields(value: Any) -> tuple[str, str]:
    title, text = value.get("title", ""), value.get("text", "")
    if not isinstance(title, str) or not isinstance(text, str):
        abort(400, "title and text must be strings")
    title, text = title.strip(), text.replace("\r\n", "\n")
    if not title or len(title) > TITLE_LIMIT:
        abort(400, f"a title has 1 to {TITLE_LIMIT} characters")
    if len(text) > TEXT_LIMIT:
        abort(400, f"a text has at most {TEXT_LIMIT} characters")
    if any(0xD800 <= ord(character) < 0xE000 for character in title + text):
        abort(400, "title and text must be Unicode")
    return title, text


def _header_number(name: str) -> int | None:
    value = request.headers.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 20 and int(value) < 1 << 64):
        abort(400, f"{name} must be a number below 2^64")
    return int(value)


def _now_ns() -> int:
    given = _header_number("X-Satchel-Time")
    return min(time.time_ns() if given is None else given, (1 << 63) - 1)


def _random_name() -> str:
    seed = _header_number("X-Satchel-Seed")
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    return f"{random.Random(seed).getrandbits(64):016x}"


def _pattern(word: str) -> str:
    for special in "\\%_":
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"


def _moment(nanoseconds: int) -> str:
    """A time for people: UTC, to the minute; empty beyond the calendar."""
    try:
        moment = datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.UTC)
    except (ValueError, OverflowError):
        return ""
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def _refuse_other_sites() -> None:
    """A page of another site may not write here through the user's browser."""
    if request.method != "GET" and request.headers.get("Sec-Fetch-Site") == "cross-site":
        abort(403, "this request comes from another site")


def _date(response: Response) -> Response:
    """The server would take Date from the clock."""
    seconds = min(_header_seconds(), 253402300799)
    response.headers["Date"] = formatdate(seconds, usegmt=True)
    return response


def _header_seconds() -> int:
    try:
        return _now_ns() // 10**9
    except HTTPException:
        return 0


def _error(error: HTTPException) -> Any:
    if request.path.startswith(("/api/", "/export")):
        return {"error": error.description}, error.code
    return render_template("error.html", error=error), error.code


def main() -> None:
    """notes.py DATABASE PORT"""
    import waitress

    app = create_app(Path(sys.argv[1]))
    warm(app)
    waitress.serve(
        app,
        host="127.0.0.1",
        port=int(sys.argv[2]),
        threads=1,
        ident=None,
        asyncore_loop_timeout=3600,
        cleanup_interval=3600,
        channel_timeout=3600,
    )


if __name__ == "__main__":
    main()
