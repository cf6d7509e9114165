# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys with which surrogates sign their answers, as this client first met them: a file,
docs/formats/surrogate-keys.md.

A surrogate has the key that it was first met with, or it is not used: one whose key could be
another each time would be nobody. Unlike other lists of a client, a damaged one is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from client.kept import SIZE_LIMIT, decode_rows, encode_rows, save
from satchel.errors import AccessError, IntegrityError, SatchelError
from satchel.names import check_name
from wire import AnswerSigner

NAME = "surrogate-keys.json"

VERSION = 1


class SurrogateKeysDamaged(IntegrityError):
    """The file of the keys of surrogates is not what was written."""


class SurrogateKeyChanged(AccessError):
    """A surrogate signs with another key than before, or does not sign any more."""


class SurrogateKeys:
    """Of one client; several of its processes may use the file at once. Thread-safe."""

    def __init__(self, state: Path) -> None:
        """state: the client's folder for that"""
        self._path = state / NAME

    def admit(self, surrogate: str, public: str) -> AnswerSigner | None:
        """Who signs the answers of that surrogate, which has just named this key; "": it names
        none. The first key is pinned, durable on return. None: it never signed.

        Raises SurrogateKeyChanged, SurrogateKeysDamaged, RemoteProtocolError, OSError.
        """
        signer = AnswerSigner(public) if public else None
        named = signer.public if signer else ""
        with self._locked():
            keys = self._keys()
            pinned = keys.get(surrogate, "")
            if pinned and pinned != named:
                raise SurrogateKeyChanged(
                    f"{surrogate} is not the surrogate that it was",
                    why="it signs with another key" if named else "it does not sign any more",
                    fix=f"ask its operator; if that is right, take its row out of {self._path}",
                )
            if named and not pinned:
                save(self._path, encode(keys | {surrogate: named}), mode=0o600)
        return signer

    def _keys(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                return decode(file.read(SIZE_LIMIT + 1))
        except FileNotFoundError:
            return {}
        except SurrogateKeysDamaged as error:
            fix = "restore it, or remove it: then surrogates are believed as at the first time"
            raise SurrogateKeysDamaged(
                f"{self._path} is damaged", why=error.why or error.what, fix=fix
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(
            self._path.with_name(f".{NAME}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def encode(keys: dict[str, str]) -> bytes:
    """keys: public lines by surrogate"""
    rows = [
        {"surrogate": name, "key": key, "sha256": _digest(name, key)}
        for name, key in sorted(keys.items())
    ]
    return encode_rows(VERSION, "surrogates", rows)


def decode(data: bytes) -> dict[str, str]:
    """Raises SurrogateKeysDamaged."""
    try:
        rows = decode_rows(data, VERSION, "surrogates")
        keys = {check_name(_text(row, "surrogate"), "surrogate"): _text(row, "key") for row in rows}
        if encode(keys) != data or any(AnswerSigner(key).public != key for key in keys.values()):
            raise ValueError("it is not as it is written")
    except (ValueError, KeyError, TypeError, RecursionError, SatchelError) as error:
        raise SurrogateKeysDamaged("no keys of surrogates", why=str(error)[:200]) from error
    return keys


def _digest(name: str, key: str) -> str:
    return hashlib.sha256(f"{name}\n{key}\n".encode()).hexdigest()


def _text(row: Any, name: str) -> str:
    value = row[name]
    if type(value) is not str:
        raise TypeError(f"{name} is no text")
    return value
