# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a medium that was plugged into this host, in a process that can do nothing else.

A stick is a stranger's, and its indexes and packs are parsed by code in C++. So the daemon opens
none. It starts `python -m surrogate.media_reader ROOT FOLDER`, which confines itself to reading the
medium (`cell.confine`), opens it, says in one line of JSON what it is, and serves its chunks at
FOLDER/chunks until its standard input ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any

from cell import confine
from chunkstore import Media
from satchel.errors import IntegrityError, SatchelError, UnavailableError
from surrogate.chunk_app import READERS, chunk_app
from surrogate.sources import PLUGGED, SocketSource
from wire import serve

START_SECONDS = 60.0
"""How long a medium may take to be opened; a pack without an index is read as a whole."""

END_SECONDS = 5.0

MAX_BODY = 1 << 20
"""Bytes of a request: the references of a batch."""

_LINE_LIMIT = 4096
_SOCKET = "chunks"


class MediaReader(SocketSource):
    """The source that such a process is. `close` ends it."""

    def __init__(self, root: Path, run: Path) -> None:
        """run: a folder for sockets. Raises IntegrityError for a medium that is of no use,
        UnavailableError where its reader does not start."""
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="m", dir=run))
        argv = [sys.executable, "-m", "surrogate.media_reader", str(root), str(self._folder)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            said = self._hear(root)
        except BaseException:
            self._end()
            raise
        self.chunks: int = said["chunks"]
        super().__init__(f"media-{said['name']}", self._folder / _SOCKET, PLUGGED)

    def close(self) -> None:
        super().close()
        self._end()

    def _hear(self, root: Path) -> dict[str, Any]:
        """What it says of the medium. It is as little believed as the medium itself."""
        assert self._process.stdout is not None
        late = threading.Timer(START_SECONDS, self._process.kill)
        late.start()
        line = self._process.stdout.readline(_LINE_LIMIT)
        late.cancel()
        try:
            said = json.loads(line)
            if "error" in said:
                raise IntegrityError(str(said["error"])[:_LINE_LIMIT])
            return {"name": str(uuid.UUID(said["uuid"]).hex[:8]), "chunks": int(said["chunks"])}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnavailableError(f"{root} cannot be read", why="its reader has ended") from error

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def main(root: Path, folder: Path) -> None:
    """Be that process."""
    tempfile.tempdir = str(folder)
    try:
        confine([root], [folder])
        media = Media.open(root)
    except (SatchelError, OSError, ValueError) as error:
        print(json.dumps({"error": str(error)[:1000]}), flush=True)
        return
    app = chunk_app("satchel-media", media.records)
    server = serve(app, folder / _SOCKET, threads=READERS, max_body=MAX_BODY)
    print(json.dumps({"uuid": media.uuid, "chunks": media.chunks}), flush=True)
    while os.read(0, 1):
        pass
    server.close(grace=0)
    media.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
