# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whole files, of which the mobile sends little: home reads the file that the service has, is sent
the chunks that are not in it, puts the new file together and uploads it.

The SHA-1s of chunks are names and prove nothing: what goes to the service has the SHA-256 that the
mobile said. Nothing of a file stays here.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import tempfile
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from satchel.errors import (
    CapacityError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    StateError,
    UsageError,
)
from satchel.ids import BLOCK_SIZE, CHUNK_ID_SIZE
from uplink.policy import (
    Condition,
    Description,
    DialogueVerdict,
    StepAnswer,
    StepRequest,
    run_dialogue,
)
from wire import Credentials, Upstream

logger = logging.getLogger(__name__)

FILES = 4
"""Under way at a time; the oldest is given up."""

FILE_LIMIT = 1 << 30
ANSWER_LIMIT = 1 << 20
PIECE = 1 << 18


class NoSuchFile(NotFoundError):
    """Home has no such file in progress."""


class FileTooLarge(CapacityError):
    """The file is too large for home to assemble."""


class NotTheFile(IntegrityError):
    """The assembled file differs from the mobile's."""


@dataclass(frozen=True)
class NewFile:
    """path: below the service, percent-encoded; etag: strong, of the file that it takes the place
    of; headers: that go along with the content; sha256: hexadecimal"""

    path: str
    size: int
    sha256: str
    etag: str
    headers: dict[str, str]

    def __post_init__(self) -> None:
        """Raises UsageError, FileTooLarge."""
        good = self.path.startswith("/") and self.size >= 0 and self.etag.startswith('"')
        if not good or "\n" in "".join((self.path, self.etag, *self.headers.values())):
            raise UsageError("home cannot assemble this file")
        if self.size > FILE_LIMIT:
            raise FileTooLarge(f"{self.path} is too large for home", why=f"over {FILE_LIMIT} bytes")


class _Assembly:
    """One file under way. base: what the service has, and behind it what the mobile sent; where: of
    chunks in it, by name"""

    def __init__(self, new: NewFile, base: BinaryIO, where: dict[bytes, int]) -> None:
        self.new, self._base, self._where = new, base, where
        self._names = b""
        self._lacking: deque[bytes] = deque()
        self.guard = threading.Lock()

    def close(self) -> None:
        self._base.close()

    def name(self, names: bytes) -> bytes:
        """A bit for each chunk of the new file, the first is the highest: whether home lacks it.
        Raises UsageError."""
        count = -(-self.new.size // BLOCK_SIZE)
        if len(names) != count * CHUNK_ID_SIZE:
            raise UsageError(f"{self.new.path} has {count} chunks", why=f"{len(names)} bytes came")
        self._names = names
        lacking: dict[bytes, None] = {}
        bits = bytearray(-(-count // 8))
        for number, name in enumerate(self._each()):
            if name not in self._where and name not in lacking:
                lacking[name] = None
                bits[number // 8] |= 0x80 >> number % 8
        self._lacking = deque(lacking)
        return bytes(bits)

    def take(self, chunks: bytes) -> None:
        """The next of those that home lacks, in their order. Raises UsageError, NotTheFile."""
        for at in range(0, len(chunks), BLOCK_SIZE):
            if not self._lacking:
                raise UsageError("home lacks no more chunks")
            chunk = chunks[at : at + BLOCK_SIZE]
            if hashlib.sha1(chunk).digest() != self._lacking[0]:
                raise NotTheFile(f"a chunk of {self.new.path} is another one than was said")
            self._where[self._lacking.popleft()] = self._base.seek(0, os.SEEK_END)
            self._base.write(chunk)

    def assemble(self, into: BinaryIO) -> None:
        """Raises StateError where chunks are missing, NotTheFile."""
        digest = hashlib.sha256()
        if self._lacking:
            raise StateError("home lacks chunks yet", why=f"{len(self._lacking)} did not come")
        for number, name in enumerate(self._each()):
            self._base.seek(self._where[name])
            chunk = self._base.read(min(BLOCK_SIZE, self.new.size - number * BLOCK_SIZE))
            digest.update(chunk)
            into.write(chunk)
        into.flush()
        if into.tell() != self.new.size or digest.hexdigest() != self.new.sha256:
            raise NotTheFile(f"{self.new.path} differs from the mobile's file")

    def _each(self) -> Iterator[bytes]:
        for at in range(0, len(self._names), CHUNK_ID_SIZE):
            yield self._names[at : at + CHUNK_ID_SIZE]


class Files:
    """Those of one service. Any thread."""

    def __init__(
        self, upstream: Upstream, credentials: Credentials, description: Description, folder: Path
    ) -> None:
        """folder: for files under way; the disk's, as these can be large"""
        self._upstream, self._credentials = upstream, credentials
        self._description, self._folder = description, folder
        self._guard = threading.Lock()
        self._under_way: OrderedDict[str, _Assembly] = OrderedDict()

    def close(self) -> None:
        with self._guard:
            while self._under_way:
                self._under_way.popitem()[1].close()

    def begin(self, new: NewFile) -> tuple[str, str]:
        """Read what the service has. A name for what follows; empty, and an etag, where it has the
        new file already. Raises ServiceUnreachable, NotFoundError, FileTooLarge, OSError."""
        base = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        try:
            etag, sha256, where = self._read(new, base)
            if sha256 == new.sha256:
                base.close()
                return "", etag
        except BaseException:
            base.close()
            raise
        name = secrets.token_hex(8)
        with self._guard:
            self._under_way[name] = _Assembly(new, base, where)
            while len(self._under_way) > FILES:
                self._under_way.popitem(last=False)[1].close()
        return name, ""

    def name(self, file: str, names: bytes) -> bytes:
        """See `_Assembly.name`. Raises NoSuchFile, UsageError."""
        found = self._get(file)
        with found.guard:
            return found.name(names)

    def take(self, file: str, chunks: bytes) -> None:
        """See `_Assembly.take`. Raises NoSuchFile, UsageError, NotTheFile."""
        found = self._get(file)
        with found.guard:
            found.take(chunks)

    def send(self, file: str) -> DialogueVerdict:
        """Upload it; it is under way no more. Raises NoSuchFile, StateError, NotTheFile,
        ServiceUnreachable, BadDescription, OSError."""
        with self._guard:
            found = self._under_way.pop(file, None)
        if found is None:
            raise _unknown(file)
        with found.guard, tempfile.TemporaryFile(dir=self._folder) as whole:
            try:
                found.assemble(whole)
                return self._dialogue(found.new, whole)
            finally:
                found.close()

    def _get(self, file: str) -> _Assembly:
        with self._guard:
            if file not in self._under_way:
                raise _unknown(file)
            return self._under_way[file]

    def _read(self, new: NewFile, base: BinaryIO) -> tuple[str, str, dict[bytes, int]]:
        """The service's file goes to `base`: its etag, its SHA-256, and where its chunks are."""
        digest, rest, where, at = hashlib.sha256(), b"", dict[bytes, int](), 0
        headers = {"Authorization": self._credentials.authorization, "Accept-Encoding": "identity"}
        with self._upstream.ask("GET", new.path, headers.items()) as answer:
            if answer.status != 200:
                raise NotFoundError(
                    f"the service has no {new.path} to begin with", why=f"status {answer.status}"
                )
            for piece in answer.body:
                digest.update(piece)
                base.write(piece)
                rest += piece
                whole = len(rest) - len(rest) % BLOCK_SIZE
                for begin in range(0, whole, BLOCK_SIZE):
                    name = hashlib.sha1(rest[begin : begin + BLOCK_SIZE]).digest()
                    where.setdefault(name, at + begin)
                at, rest = at + whole, rest[whole:]
                if at > FILE_LIMIT:
                    raise FileTooLarge(f"{new.path} is too large for home")
            if rest:
                where.setdefault(hashlib.sha1(rest).digest(), at)
            base.flush()
            return answer.named.get("etag", ""), digest.hexdigest(), where

    def _dialogue(self, new: NewFile, whole: BinaryIO) -> DialogueVerdict:
        values = {"path": new.path, "size": str(new.size), "sha256": new.sha256}

        def ask(step: StepRequest) -> StepAnswer:
            whole.seek(0)
            pieces = iter(lambda: whole.read(PIECE), b"") if step.content else None
            headers = dict(step.headers) | {"Authorization": self._credentials.authorization}
            with self._upstream.ask(
                step.method,
                step.target,
                headers.items(),
                pieces if step.content or step.method != "POST" else [],
                new.size if step.content else 0,
            ) as answer:
                return StepAnswer(answer.status, answer.named, answer.beginning(ANSWER_LIMIT))

        verdict = run_dialogue(self._description, values, new.headers, Condition(new.etag), ask)
        logger.info("%s of the mobile: %s", new.path, verdict.outcome.value)
        return verdict


def _unknown(file: str) -> SatchelError:
    return NoSuchFile(f"no file {file[:32]} is under way", fix="begin again")
