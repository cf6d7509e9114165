# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whom the operator has banned: a file of identities, docs/formats/pairing.md.

`satchel-surrogate banned 1`, then the identities in order, then `sha256` and the digest of all
before it; a line each.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from satchel.errors import AccessError, IntegrityError, NotFoundError, UnsupportedError
from satchel.files import write_durably

NAME = "banned"
VERSION = 1

_MAGIC = "satchel-surrogate banned "

SIZE_LIMIT = 16 << 20
"""Bytes of such a file: a hundred thousand of the longest identities."""


class TenantBanned(AccessError):
    """This surrogate's operator has banned the tenant."""


class BanListDamaged(IntegrityError):
    """The file of bans is damaged. No tenant is admitted until it is repaired."""


class BanListVersion(UnsupportedError):
    """Another version wrote the file of bans."""


class BanList:
    """Those of one surrogate. Thread-safe; one for a file."""

    def __init__(self, path: Path) -> None:
        """Raises BanListDamaged, BanListVersion, OSError."""
        self._path = path
        self._lock = threading.Lock()
        self._identities = decode_ban_list(_bytes(path), path) if path.exists() else frozenset()

    def all(self) -> list[str]:
        """In order."""
        return sorted(self._identities)

    def require_none(self, identity: str) -> None:
        """Raises TenantBanned where that one is."""
        if identity in self._identities:
            raise TenantBanned(
                "this surrogate does not serve you",
                why=f"its operator has banned {identity}",
                fix="ask its operator, or use another surrogate",
            )

    def add(self, identity: str) -> None:
        """Durable on return. Raises OSError."""
        with self._lock:
            self._write(self._identities | {identity})

    def remove(self, identity: str) -> None:
        """Durable on return. Raises NotFoundError where it is not banned, OSError."""
        with self._lock:
            if identity not in self._identities:
                raise NotFoundError(f"{identity} is not banned")
            self._write(self._identities - {identity})

    def _write(self, identities: frozenset[str]) -> None:
        write_durably(self._path, encode_ban_list(identities), mode=0o600)
        self._identities = identities


def encode_ban_list(identities: frozenset[str]) -> bytes:
    text = "".join(f"{line}\n" for line in (f"{_MAGIC}{VERSION}", *sorted(identities)))
    return f"{text}sha256 {_digest(text)}\n".encode()


def decode_ban_list(data: bytes, path: Path) -> frozenset[str]:
    """Raises BanListDamaged, BanListVersion."""
    text = data.decode("ascii", "replace")
    head, *lines = text.split("\n")
    if head.startswith(_MAGIC) and head != f"{_MAGIC}{VERSION}":
        raise BanListVersion(f"{path} has version {head[len(_MAGIC) :][:20]!r}")
    identities = frozenset(lines[:-2])
    if data != encode_ban_list(identities):
        raise BanListDamaged(
            f"{path} does not say who is banned",
            why="it is not what was written",
            fix="restore it, or remove it and ban them anew with `satchel-surrogate tenants ban`",
        )
    return identities


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(SIZE_LIMIT)
