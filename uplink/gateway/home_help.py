# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's help, over the link to home: what has changed in a tree, and whole files of which only the
chunks cross our link that the service's file lacks (docs/formats/uplink.md)."""

from __future__ import annotations

import hashlib
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel.errors import IntegrityError, NotFoundError, SatchelError
from satchel.ids import BLOCK_SIZE
from satchel.typed import Form, TypeMismatch
from uplink.policy import DialogueVerdict, Mirror, Outcome, Upload, read_members
from wire import Link, PeerTimeout

TREE_LIMIT = 64 << 20
BATCH = 4 << 20
"""Bytes of chunks in one request."""

SECONDS = 60.0
FILE_SECONDS = 900.0
"""How long home may take to read or upload a whole file."""

HEADS = 300
"""Bytes of a request's head, and of an answer's: about so many, for the model of the radio."""

JSON = {"Content-Type": "application/json"}

_TOKEN = re.compile(r"([0-9a-f]{16})\.([0-9]{1,15})")


class BadHelp(IntegrityError):
    """Home's answer does not follow uplink's protocol."""


@dataclass
class HelpedTree:
    """A mirror that home's answers keep. name, state: of home's mirror, and how much of it this one
    has"""

    mirror: Mirror
    name: str = ""
    state: int = 0


class HomeHelp:
    """Any thread; one thread at a time for a tree."""

    def __init__(self, link: Link, transferred: Callable[[float, int, int], None]) -> None:
        """transferred: is told of each request: when it began, of time.monotonic(), bytes up and
        down"""
        self._link, self._transferred = link, transferred

    @property
    def there(self) -> bool:
        """Whether the link stands, as far as anybody knows; if not, one is made."""
        if not self._link.alive:
            self._link.want()
        return self._link.alive

    def failed(self, error: SatchelError) -> None:
        """A question to home came to nothing. A link without an answer in time may be none any
        more, of which nobody tells: it has few keep-alives. The next question has a new one."""
        if isinstance(error, PeerTimeout):
            self._link.cut()

    def refresh(
        self, tree: HelpedTree, service: str, user: str, root: str, question: bytes
    ) -> None:
        """Have what the service has now. root: below the service. Raises what home raises, BadHelp,
        BadDavXml; the mirror is of no more use then."""
        if tree.name:
            try:
                path = f"/v1/uplink/{service}/trees/{tree.name}?since={tree.state}"
                began = time.monotonic()
                answer = self._link.http.get_bytes(path, timeout=SECONDS, limit=TREE_LIMIT)
                self._transferred(began, HEADS, HEADS + len(answer))
            except NotFoundError:
                tree.mirror, tree.name, tree.state = Mirror(tree.mirror.root), "", 0
            else:
                self._apply(tree, answer)
                return
        wish = {"user": user, "root": root, "question": question.decode("utf-8", "replace")}
        self._apply(
            tree, self._post(f"/v1/uplink/{service}/trees", json.dumps(wish).encode(), JSON)
        )

    def upload(self, upload: Upload, user: str, body: Path) -> DialogueVerdict:
        """Have home put the file together and upload it. Raises what home raises, BadHelp,
        OSError; whether the service has it is then not known."""
        base = f"/v1/uplink/{upload.service}/files"
        file = {
            "path": upload.path,
            "size": upload.size,
            "sha256": upload.sha256,
            "etag": upload.condition.etag,
            "headers": dict(upload.headers),
        }
        http = self._link.http
        begun = http.post_json(base, {"user": user, "file": file}, timeout=FILE_SECONDS)
        name, etag = _texts(begun, "file", "etag")
        if not name:
            return DialogueVerdict(Outcome.DONE, "the service has it already", etag)
        if not re.fullmatch("[0-9a-f]{16}", name):
            raise BadHelp("home names no file")
        names = b"".join(hashlib.sha1(chunk).digest() for chunk in _chunks(body))
        lacking = _unpacked(self._post(f"{base}/{name}/names", names))
        for batch in _batches(body, lacking):
            self._post(f"{base}/{name}/chunks", batch)
        said = http.post_json(f"{base}/{name}/send", {}, timeout=FILE_SECONDS)
        try:
            verdict: DialogueVerdict = Form().typed(said, DialogueVerdict, "the verdict")
        except TypeMismatch as error:
            raise BadHelp("home does not report the result of a file", why=str(error)) from error
        return verdict

    def _post(self, path: str, body: bytes, form: Mapping[str, str] | None = None) -> bytes:
        began = time.monotonic()
        answer = self._link.http.post_bytes(
            path, body, headers=form, timeout=SECONDS, limit=TREE_LIMIT
        )
        self._transferred(began, HEADS + len(body), HEADS + len(answer))
        return answer

    def _apply(self, tree: HelpedTree, answer: bytes) -> None:
        told, token = read_members(_unpacked(answer))
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise BadHelp("home's mirror has no state")
        tree.mirror.apply(told)
        tree.name, tree.state = found[1], int(found[2])


def _unpacked(answer: bytes) -> bytes:
    unpack = zlib.decompressobj()
    try:
        body = unpack.decompress(answer, TREE_LIMIT)
    except zlib.error as error:
        raise BadHelp("cannot unpack home's answer", why=str(error)) from error
    if not unpack.eof:
        raise BadHelp("home's answer is too long, or cut")
    return body


def _texts(said: Any, *keys: str) -> list[str]:
    found = [said.get(key) for key in keys] if isinstance(said, dict) else [None]
    if not all(isinstance(text, str) for text in found):
        raise BadHelp("home's answer is not about a file", why=f"it needs {', '.join(keys)}")
    return [str(text) for text in found]


def _chunks(body: Path) -> Iterator[bytes]:
    with body.open("rb") as file:
        while chunk := file.read(BLOCK_SIZE):
            yield chunk


def _batches(body: Path, lacking: bytes) -> Iterator[bytes]:
    """The chunks whose bit is set; the first is the highest."""
    batch = bytearray()
    for number, chunk in enumerate(_chunks(body)):
        place = number // 8
        if place < len(lacking) and lacking[place] & (0x80 >> number % 8):
            batch += chunk
            if len(batch) >= BATCH:
                yield bytes(batch)
                batch.clear()
    if batch:
        yield bytes(batch)
