# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Held uploads, durable before a program is told that they are done (docs/formats/uplink.md).

`uploads` has a record for each step of each upload, the whole of what is known then, and the last
one counts. `bodies` has the bytes. The order of what is made durable is the whole of it: a body
before the record that names it, a record before the answer that relies on it, and the record that
nobody needs a body any more before the body goes. So a crash leaves at most a body that no record
names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from satchel.errors import CapacityError, ConflictError, NotFoundError
from satchel.files import claimed, sync_folder
from satchel.record_file import RecordFile, RecordFormat
from satchel.targets import may_meet, normal_path
from satchel.typed import Form, TypeMismatch
from uplink.policy import Condition, Upload, UploadState

FORMAT = RecordFormat(
    what="spool of uploads",
    magic=b"SATUPLNK",
    version=1,
    fields=struct.Struct("<II"),
    limit=1 << 20,
)
DONE = frozenset((UploadState.CONFIRMED, UploadState.CONFLICT))
"""Of these the bytes are not kept any more."""

UPLOAD, FORGOTTEN = 1, 2
"""Kinds of records."""

KEPT_DONE = 200
"""Uploads that are done and still told of."""

REWRITE_BYTES = 1 << 20
"""A file of records that is larger is written anew without what nobody needs."""

_FORM = Form()
_BODY = re.compile(r"[0-9a-f]{32}")


class SpoolFull(CapacityError):
    """The spool has no room for another held upload."""


class SpoolInUse(ConflictError):
    """Another daemon has the spool."""


class IncomingBody:
    """A body that is being written. Made by `Spool.receive`."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.size = 0
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        """Raises OSError."""
        self._file.write(piece)
        self._hash.update(piece)
        self.size += len(piece)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def flush(self) -> None:
        self._file.flush()

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


class Spool:
    """See the module. Any thread."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Open or make it: what was on its way is held again. limit: bytes of bodies.

        Raises OSError, SpoolInUse, IntegrityError and UnsupportedError for a file of records that
        cannot be read.
        """
        self._bodies = folder / "bodies"
        self._bodies.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._limit = limit
        self._guard = threading.Lock()
        self._reserved = 0
        self._uploads: dict[int, Upload] = {}
        with contextlib.ExitStack() as claim:
            if not claim.enter_context(claimed(folder / "lock")):
                raise SpoolInUse(f"another daemon has {folder}", fix="stop it")
            self._records = RecordFile(folder / "uploads", FORMAT, self._take)
            claim.callback(self._records.close)
            sync_folder(folder)
            self._last = max(self._uploads, default=0)
            self._recover()
            self._claim = claim.pop_all()

    def close(self) -> None:
        with self._guard:
            self._claim.close()

    @contextlib.contextmanager
    def receive(self, size: int) -> Iterator[IncomingBody]:
        """A body of `size` bytes, to be written and then held by `hold` within the block; else it
        is gone behind it. Raises SpoolFull, OSError."""
        with self._guard:
            if self._used() + self._reserved + size > self._limit:
                raise SpoolFull(
                    "the spool of uploads is full", why=f"it may have {self._limit} bytes"
                )
            self._reserved += size
        name = secrets.token_hex(16)
        path = self._bodies / name
        try:
            with path.open("xb") as file:
                if size:
                    os.posix_fallocate(file.fileno(), 0, size)
                yield IncomingBody(file, name)
        finally:
            with self._guard:
                self._reserved -= size
                held = any(upload.body == name for upload in self._uploads.values())
            if not held:
                path.unlink(missing_ok=True)

    def hold(
        self,
        incoming: IncomingBody,
        *,
        service: str,
        account: str,
        path: str,
        headers: tuple[tuple[str, str], ...],
        condition: Condition,
        now: float,
    ) -> Upload:
        """The upload is held, and durable when this returns. One of the same path that is held is
        replaced, and keeps its number and its condition. Raises OSError; nothing is held then."""
        incoming.sync()
        sync_folder(self._bodies)
        with self._guard:
            before = self._pending_at(service, account, path)
            if before is not None and before.state is UploadState.FLUSHING:
                raise ConflictError(f"{path} is on its way just now", fix="try again")
            upload = Upload(
                number=before.number if before else self._last + 1,
                service=service,
                account=account,
                path=path,
                body=incoming.name,
                size=incoming.size,
                sha256=incoming.sha256,
                headers=headers,
                condition=before.condition if before else condition,
                accepted=now,
                tries=before.tries if before else 0,
            ).moved(UploadState.HELD)
            self._write(upload)
            self._last = max(self._last, upload.number)
        if before is not None:
            self._drop_body(before)
        return upload

    def move(self, number: int, state: UploadState, *, why: str = "", copy: str = "") -> Upload:
        """Durable when it returns. Raises NotFoundError, StateError, OSError; nothing has changed
        then."""
        with self._guard:
            upload = self._get(number).moved(state, why=why, copy=copy)
            self._write(upload)
        if state in DONE:
            self._drop_body(upload)
        return upload

    def forget(self, number: int) -> None:
        """A failed upload goes, with its bytes. Raises NotFoundError, StateError, OSError."""
        with self._guard:
            upload = self._get(number)
            if upload.pending:
                raise ConflictError(f"upload {number} waits", fix="`satchel uplink flush`")
            self._records.append((FORGOTTEN, 0), json.dumps(number).encode())
            self._records.sync()
            del self._uploads[number]
        self._drop_body(upload)

    def body(self, upload: Upload) -> Path:
        return self._bodies / upload.body

    def path_of(self, incoming: IncomingBody) -> Path:
        """Of a body that was received, within its block; all of it can be read."""
        incoming.flush()
        return self._bodies / incoming.name

    def get(self, number: int) -> Upload:
        with self._guard:
            return self._get(number)

    def uploads(self) -> list[Upload]:
        """All that is known, in order."""
        with self._guard:
            return [self._uploads[number] for number in sorted(self._uploads)]

    def pending(self) -> list[Upload]:
        """Held or on their way, in order."""
        return [upload for upload in self.uploads() if upload.pending]

    def pending_at(self, service: str, account: str, path: str) -> Upload | None:
        """What programs are to see at that path in place of what the service has."""
        with self._guard:
            return self._pending_at(service, account, path)

    def pending_near(self, service: str, account: str, path: str) -> list[Upload]:
        """Return the uploads at that path, below it, or at a path that it is below, whichever way a
        server reads its slashes."""
        return [
            upload
            for upload in self.pending()
            if (upload.service, upload.account) == (service, account)
            and may_meet(upload.path, path.partition("?")[0])
        ]

    def _pending_at(self, service: str, account: str, path: str) -> Upload | None:
        path = normal_path(path)
        for upload in self._uploads.values():
            same = (upload.service, upload.account) == (service, account)
            if same and upload.pending and normal_path(upload.path) == path:
                return upload
        return None

    def _get(self, number: int) -> Upload:
        if number not in self._uploads:
            raise NotFoundError(f"there is no upload {number}", fix="`satchel uplink status`")
        return self._uploads[number]

    def _used(self) -> int:
        return sum(upload.size for upload in self._uploads.values() if upload.state not in DONE)

    def _write(self, upload: Upload) -> None:
        self._records.append((UPLOAD, 0), _packed(upload))
        self._records.sync()
        self._uploads[upload.number] = upload
        if self._records.end > REWRITE_BYTES:
            self._rewrite()

    def _rewrite(self) -> None:
        numbers = [number for number, each in self._uploads.items() if each.state in DONE]
        for number in sorted(numbers)[:-KEPT_DONE]:
            del self._uploads[number]
        kept = [self._uploads[number] for number in sorted(self._uploads)]
        self._records.rewrite(((UPLOAD, 0), _packed(upload)) for upload in kept)

    def _take(self, fields: tuple[int | bytes, ...], place: int, data: bytes) -> bool:
        try:
            value = json.loads(data)
            if fields[0] == FORGOTTEN:
                self._uploads.pop(int(value), None)
                return True
            upload: Upload = _FORM.typed(value, Upload, "upload")
        except (ValueError, TypeError, TypeMismatch, RecursionError):
            return False
        if fields[0] != UPLOAD or not _BODY.fullmatch(upload.body):
            return False
        self._uploads[upload.number] = upload
        return True

    def _recover(self) -> None:
        """What was on its way is held again; bodies that nobody names go; one that is not there is
        told of."""
        named = {each.body for each in self._uploads.values() if each.state not in DONE}
        for path in self._bodies.iterdir():
            if path.name not in named:
                path.unlink()
        for upload in [each for each in self._uploads.values() if each.pending]:
            size = self.body(upload).stat().st_size if self.body(upload).exists() else -1
            if size != upload.size:
                lost = replace(upload, state=UploadState.FAILED, why="its bytes are not here")
                self._write(lost)
            elif upload.state is UploadState.FLUSHING:
                self._write(upload.moved(UploadState.HELD, why="the daemon ended meanwhile"))

    def _drop_body(self, upload: Upload) -> None:
        self.body(upload).unlink(missing_ok=True)


def _packed(upload: Upload) -> bytes:
    return json.dumps(_FORM.plain(upload)).encode()
