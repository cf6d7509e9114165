# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Answers that are kept, on the disk, bounded; shared by the programs of an account.

Each is two files named by its key: `KEY.json`, which is written last and says what the other is,
and `KEY.body`. Losing any of it costs a request. What was changed on the disk is thrown away: the
body's SHA-256 is looked at when a daemon first gives it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from satchel.files import by_age
from satchel.targets import may_meet
from satchel.typed import Form, TypeMismatch
from uplink.policy import CacheFreshness, cache_key, freshness, keepable, plain

_FORM = Form()


ToldFiles = Mapping[str, tuple[str, int | None]]
"""Etags, empty where they are not told, and sizes of files, by paths as `plain` makes them."""


@dataclass(frozen=True)
class CachedFile:
    """base: the key without what Vary tells apart; path: below the service; confirmed: when the
    service last said that it is so, in seconds since 1970"""

    key: str
    base: str
    service: str
    account: str
    path: str
    vary: str
    headers: tuple[tuple[str, str], ...]
    etag: str
    size: int
    sha256: str
    confirmed: float


class FileCache:
    """See the module. Any thread."""

    def __init__(self, folder: Path, limit: int) -> None:
        """limit: bytes of bodies. Raises OSError."""
        self._folder = folder
        self._limit = limit
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, CachedFile] = OrderedDict()
        self._vary: dict[str, str] = {}
        self._checked: set[str] = set()
        self._changes = 0
        self.hits = self.misses = self.confirmations = 0
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._read()

    def find(
        self, service: str, account: str, path: str, headers: Mapping[str, str], fresh: float
    ) -> tuple[CachedFile, CacheFreshness] | None:
        """What is kept of an answer to GET. headers: of the request, by names in lower case."""
        base = cache_key(service, account, path)
        with self._guard:
            if base not in self._vary:
                return None
            key = cache_key(service, account, path, self._vary[base], headers)
            kept = self._kept.get(key)
            if kept is None or not self._sound(kept):
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return kept, freshness(kept.confirmed, time.time(), fresh)

    def body(self, kept: CachedFile) -> BinaryIO:
        """Open the content. Raises OSError where it is gone meanwhile."""
        return self._path(kept.key, "body").open("rb")

    def confirm(self, kept: CachedFile) -> None:
        """The service said that it is still so."""
        with self._guard:
            self.confirmations += 1
            if kept.key in self._kept:
                self._write_entry(replace(kept, confirmed=time.time()))

    def expire(self, service: str, account: str, path: str) -> None:
        """Something changed at that path: the service is asked next time, of what is below too."""
        path = path.partition("?")[0]
        with self._guard:
            self._changes += 1
            for kept in list(self._kept.values()):
                same = (kept.service, kept.account) == (service, account)
                if same and may_meet(kept.path.partition("?")[0], path):
                    self._write_entry(replace(kept, confirmed=0.0))

    def listed(self, service: str, account: str, told: ToldFiles) -> None:
        """A service has listed files: ask it again for those that differ from kept ones."""
        with self._guard:
            for kept in list(self._kept.values()):
                if (kept.service, kept.account) != (service, account) or not kept.confirmed:
                    continue
                etag, size = told.get(plain(kept.path.partition("?")[0]), ("", None))
                other = etag != kept.etag if etag else size not in (None, kept.size)
                if other:
                    self._changes += 1
                    self._write_entry(replace(kept, confirmed=0.0))

    def keep(
        self,
        service: str,
        account: str,
        path: str,
        asked: Mapping[str, str],
        answer: tuple[int, list[tuple[str, str]]],
        body: Iterable[bytes],
    ) -> Iterator[bytes]:
        """The same body, which is kept when all of it has passed, if it may be. asked: headers of
        the request; answer: status and headers."""
        named = {name.lower(): value for name, value in answer[1]}
        length = named.get("content-length", "")
        fits = length.isdecimal() and int(length) <= self._limit // 4
        if not keepable(answer[0], named) or not fits:
            yield from body
            return
        vary = named.get("vary", "")
        base = cache_key(service, account, path)
        key = cache_key(service, account, path, vary, asked)
        temporary = self._path(f"{key}.{threading.get_ident()}", "new")
        digest, size = hashlib.sha256(), 0
        with self._guard:
            changes = self._changes
        try:
            file = temporary.open("wb")
        except OSError:
            yield from body  # a disk without room hinders no reading
            return
        try:
            with file:
                for piece in body:
                    digest.update(piece)
                    size += len(piece)
                    with contextlib.suppress(OSError):  # told by the size below
                        file.write(piece)
                    yield piece
                whole = size == int(length) and file.tell() == size
            if whole:
                kept = CachedFile(
                    key, base, service, account, path, vary, tuple(answer[1]),
                    named["etag"], size, digest.hexdigest(), time.time(),
                )  # fmt: skip
                self._add(kept, temporary, changes)
        finally:
            temporary.unlink(missing_ok=True)

    def stats(self) -> dict[str, int]:
        with self._guard:
            return {
                "kept": len(self._kept),
                "kept_bytes": sum(kept.size for kept in self._kept.values()),
                "hits": self.hits,
                "misses": self.misses,
                "confirmations": self.confirmations,
            }

    def _add(self, kept: CachedFile, temporary: Path, changes: int) -> None:
        with self._guard:
            if self._changes != changes:  # while it came: perhaps this was changed
                kept = replace(kept, confirmed=0.0)
            temporary.replace(self._path(kept.key, "body"))
            self._write_entry(kept)
            self._vary[kept.base] = kept.vary
            self._checked.add(kept.key)
            self._kept.move_to_end(kept.key)
            size = sum(each.size for each in self._kept.values())
            while size > self._limit and len(self._kept) > 1:
                oldest = next(iter(self._kept.values()))
                size -= oldest.size
                self._drop(oldest.key)

    def _write_entry(self, kept: CachedFile) -> None:
        place = self._path(kept.key, "json")
        temporary = place.with_suffix(".entry")
        temporary.write_text(json.dumps(_FORM.plain(kept)), "utf-8")
        temporary.replace(place)
        self._kept[kept.key] = kept

    def _sound(self, kept: CachedFile) -> bool:
        if kept.key in self._checked:
            return True
        try:
            with self._path(kept.key, "body").open("rb") as file:
                sound = hashlib.file_digest(file, "sha256").hexdigest() == kept.sha256
        except OSError:
            return False
        if sound:
            self._checked.add(kept.key)
        return sound

    def _drop(self, key: str) -> None:
        self._kept.pop(key, None)
        self._checked.discard(key)
        for suffix in ("json", "body"):
            self._path(key, suffix).unlink(missing_ok=True)

    def _read(self) -> None:
        """The entries of an earlier daemon, the one used longest ago first."""
        for place in by_age(self._folder.iterdir()):
            if place.suffix in (".new", ".entry"):
                place.unlink()
            if place.suffix != ".json":
                continue
            try:
                kept: CachedFile = _FORM.typed(json.loads(place.read_bytes()), CachedFile, "entry")
            except (ValueError, TypeMismatch, RecursionError, OSError):
                place.unlink()
                continue
            if kept.key == place.stem and kept.key == os.path.basename(kept.key):  # noqa: PTH119
                self._kept[kept.key] = kept
                self._vary[kept.base] = kept.vary
        for place in self._folder.glob("*.body"):
            if place.stem not in self._kept:
                place.unlink()

    def _path(self, key: str, suffix: str) -> Path:
        return self._folder / f"{key}.{suffix}"
