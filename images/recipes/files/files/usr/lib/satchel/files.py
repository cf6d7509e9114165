# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A folder over HTTP: what a service does with the files of a share, and little more.

    GET    /PATH    a file's bytes, or of a folder what is in it, as JSON
    PUT    /PATH    the body is the file's content from now on; folders above are made
    POST   /PATH    the body goes at the end of the file: 201 where it had to be opened for that
    DELETE /PATH    remove it; a folder must be empty

A file that is appended to stays open, as a log does, until another one is, or until it has another
name: then the next append makes a new one.

One thread serves, in the order of arrival. Nothing is kept here that is not in the files, so
an answer follows from the request and from them. The time is the request's own, X-Satchel-Time
(nanoseconds since 1970).
"""

from __future__ import annotations

import os
import sys
from email.utils import formatdate
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

BODY_LIMIT = 8 << 20


class Folder:
    """The folder, and the file in it that was appended to last. For one thread at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._appended: tuple[Path, int] | None = None

    def read(self, path: Path) -> bytes | list[dict[str, Any]]:
        """A file's bytes, or a folder's entries by name."""
        if not path.is_dir():
            return path.read_bytes()
        return [_entry(child) for child in sorted(path.iterdir())]

    def write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def append(self, path: Path, content: bytes) -> bool:
        """Whether the file was open already. Durable when it returns."""
        before = self._appended
        file = self._open(path)
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)
        return self._appended is before

    def remove(self, path: Path) -> None:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()

    def _open(self, path: Path) -> int:
        if self._appended:
            name, file = self._appended
            if name == path and path.exists() and os.path.samestat(path.stat(), os.fstat(file)):
                return file
            self._appended = None
            os.close(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._appended = path, file
        return file


def create_app(root: Path) -> Flask:
    """The WSGI application on that folder."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
    folder = Folder(root)

    @app.get("/")
    @app.get("/<path:name>")
    def read(name: str = "") -> Any:
        found = folder.read(_below(root, name))
        if isinstance(found, bytes):
            return Response(found, content_type="application/octet-stream")
        return {"entries": found}

    @app.put("/<path:name>")
    def write(name: str) -> Any:
        folder.write(_below(root, name), request.get_data())
        return "", 204

    @app.post("/<path:name>")
    def append(name: str) -> Any:
        was_open = folder.append(_below(root, name), request.get_data())
        return "", 204 if was_open else 201

    @app.delete("/<path:name>")
    def remove(name: str) -> Any:
        folder.remove(_below(root, name))
        return "", 204

    app.before_request(_refuse_other_sites)
    app.after_request(_date)
    app.register_error_handler(HTTPException, _error)
    app.register_error_handler(OSError, _refused)
    return app


def _below(root: Path, name: str) -> Path:
    parts = name.split("/")
    if ".." in parts or "\0" in name:
        abort(400, "a path leads down")
    return root.joinpath(*(part for part in parts if part))


def _entry(path: Path) -> dict[str, Any]:
    about = path.lstat()
    kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
    return {"name": path.name, "kind": kind, "size": about.st_size if kind == "file" else 0}


def _refuse_other_sites() -> None:
    """A page of another site may not write here through the user's browser."""
    if request.method != "GET" and request.headers.get("Sec-Fetch-Site") == "cross-site":
        abort(403, "this request comes from another site")


def _date(response: Response) -> Response:
    """The server would take Date from the clock."""
    given = request.headers.get("X-Satchel-Time", "")
    seconds = int(given) // 10**9 if given.isascii() and given.isdigit() and len(given) < 20 else 0
    response.headers["Date"] = formatdate(seconds, usegmt=True)
    return response


def _error(error: HTTPException) -> Any:
    return {"error": error.description}, error.code


def _refused(error: OSError) -> Any:
    status = 404 if isinstance(error, FileNotFoundError) else 409
    return {"error": error.strerror}, status


def main() -> None:
    """files.py FOLDER PORT"""
    import waitress

    app = create_app(Path(sys.argv[1]))
    app.test_client().get("/")  # a checkpoint has the code in memory
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
