# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys with which surrogates sign their answers, as this client first met them, and what was
proved against them: a file, docs/formats/client-state.md.

A surrogate has the key that it was first met with, or it is not used: one whose key could be
another each time would be nobody. One that was proved to answer otherwise than home PROOFS_LIMIT
times is banned by that key and by the host keys of its sshd, under whatever name it comes. Unlike
other lists of a client, a damaged one is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from client.state.kept import SIZE_LIMIT, decode_rows, encode_rows, save
from satchel.errors import AccessError, IntegrityError, NotFoundError, SatchelError
from satchel.names import check_name
from wire import AnswerSigner, Peer, known_fingerprints

NAME = "surrogate-keys.json"

VERSION = 1

PROOFS_LIMIT = 3
"""Proofs that ban a surrogate. One proof is a difference, and a service that does not do the same
twice makes such a one: a replica is brought up again twice, and the third difference is believed.
"""

HOSTS_LIMIT = 16
"""Host keys that are remembered of one surrogate."""

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


class SurrogateKeysDamaged(IntegrityError):
    """The file of surrogates' keys is damaged."""


class SurrogateKeyChanged(AccessError):
    """A surrogate signs with a different key, or no longer signs."""


class SurrogateBanned(AccessError):
    """A surrogate was proved too often to answer differently from home."""


@dataclass(frozen=True)
class PinnedKey:
    """What is known of one surrogate. key: its public line; proofs: how often it was proved to
    answer otherwise than home; hosts: fingerprints of its sshd's keys at those times."""

    key: str
    proofs: int = 0
    hosts: tuple[str, ...] = ()

    @property
    def banned(self) -> bool:
        return self.proofs >= PROOFS_LIMIT


class SurrogateKeys:
    """Of one client; several of its processes may use the file at once. Thread-safe."""

    def __init__(self, state: Path) -> None:
        """state: the client's folder for that"""
        self._path = state / NAME

    def require_none_banned(self, surrogate: str, peer: Peer) -> None:
        """Raises SurrogateBanned for a surrogate that has the name or a host key of a banned one,
        SurrogateKeysDamaged, UnsupportedError, OSError."""
        with self._locked():
            known = self._known()
        banned = {name: pinned for name, pinned in known.items() if pinned.banned}
        hosts = _host_keys(peer) if banned else ()
        for name, pinned in banned.items():
            if name == surrogate or set(hosts) & set(pinned.hosts):
                raise _banned(surrogate, name, pinned)

    def admit(self, surrogate: str, public: str) -> AnswerSigner | None:
        """Who signs the answers of that surrogate, which has just named this key; "": it names
        none. The first key is pinned, durable on return. None: it never signed.

        Raises SurrogateKeyChanged, SurrogateBanned, SurrogateKeysDamaged, RemoteProtocolError,
        OSError.
        """
        signer = AnswerSigner(public) if public else None
        named = signer.public if signer else ""
        with self._locked():
            known = self._known()
            for name, other in known.items():
                if named and other.banned and other.key == named:
                    raise _banned(surrogate, name, other)
            pinned = known[surrogate].key if surrogate in known else ""
            if pinned and pinned != named:
                raise SurrogateKeyChanged(
                    f"{surrogate} is not the surrogate that it was",
                    why="it signs with another key" if named else "it does not sign any more",
                    fix="ask its operator; if that is right, "
                    f"`satchel surrogate forget {surrogate}`",
                )
            if named and not pinned:
                self._save(known | {surrogate: PinnedKey(named)})
        return signer

    def proved(self, surrogate: str, peer: Peer) -> PinnedKey:
        """One more proof against a surrogate that was admitted; durable on return. Raises
        SurrogateKeysDamaged, NotFoundError, UnsupportedError, OSError."""
        with self._locked():
            known = self._known()
            before = known.get(surrogate)
            if before is None:
                raise NotFoundError(f"no key of {surrogate} is known")
            seen = sorted({*before.hosts, *_host_keys(peer)})[:HOSTS_LIMIT]
            after = replace(before, proofs=before.proofs + 1, hosts=tuple(seen))
            self._save(known | {surrogate: after})
        return after

    def forget(self, surrogate: str) -> bool:
        """Whether there was anything to forget of it: its key, and what was proved. Raises
        SurrogateKeysDamaged, OSError."""
        with self._locked():
            known = self._known()
            found = known.pop(surrogate, None)
            if found:
                self._save(known)
        return found is not None

    def _save(self, known: dict[str, PinnedKey]) -> None:
        save(self._path, encode(known), mode=0o600)

    def _known(self) -> dict[str, PinnedKey]:
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


def encode(known: dict[str, PinnedKey]) -> bytes:
    """known: by the names of surrogates"""
    rows = [_row(name, pinned) for name, pinned in sorted(known.items())]
    return encode_rows(VERSION, "surrogates", rows)


def decode(data: bytes) -> dict[str, PinnedKey]:
    """Raises SurrogateKeysDamaged."""
    try:
        rows = decode_rows(data, VERSION, "surrogates")
        known = {check_name(_text(row["surrogate"]), "surrogate"): _pinned(row) for row in rows}
        if encode(known) != data:
            raise ValueError("it is not as it is written")
    except (ValueError, KeyError, TypeError, RecursionError, SatchelError) as error:
        raise SurrogateKeysDamaged("no keys of surrogates", why=str(error)[:200]) from error
    return known


def _row(name: str, pinned: PinnedKey) -> dict[str, Any]:
    row = {
        "surrogate": name,
        "key": pinned.key,
        "proofs": pinned.proofs,
        "hosts": list(pinned.hosts),
    }
    return {**row, "sha256": hashlib.sha256(json.dumps(row).encode()).hexdigest()}


def _pinned(row: Any) -> PinnedKey:
    key, proofs, hosts = _text(row["key"]), row["proofs"], row["hosts"]
    if AnswerSigner(key).public != key:
        raise ValueError("a key is not as it is written")
    if type(proofs) is not int or proofs < 0:
        raise ValueError("proofs are not a number")
    if not isinstance(hosts, list) or len(hosts) > HOSTS_LIMIT:
        raise TypeError("hosts are not a list")
    if not all(_FINGERPRINT.fullmatch(_text(host)) for host in hosts):
        raise ValueError("a host key is not a fingerprint")
    return PinnedKey(key, proofs, tuple(hosts))


def _host_keys(peer: Peer) -> list[str]:
    if not peer.destination:
        return []  # a socket of this host
    return known_fingerprints(peer.known_hosts, peer.host, peer.port)


def _banned(surrogate: str, name: str, pinned: PinnedKey) -> SurrogateBanned:
    known_as = "" if surrogate == name else f", as {name}"
    return SurrogateBanned(
        f"{surrogate} is banned",
        why=f"it was proved {pinned.proofs} times to answer differently from home{known_as}",
        fix="use another surrogate; if `satchel doctor SERVICE` says that the service does not do "
        f"the same twice, lift the ban with `satchel surrogate forget {name}`",
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{str(value)[:40]} is not a text")
    return value
