# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a replica's host has answered, as a statement that it signs; docs/formats/evidence.md.

A surrogate signs each answer, so its key is in its memory: an ed25519 key that signs nothing else.
Its file is OpenSSH's, and so is its public line.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from satchel.errors import AccessError
from satchel.names import check_name
from wire.errors import LocalProtocolError, RemoteProtocolError, SignatureInvalid
from wire.keys.identity import Identity

SIGNATURE_SIZE = 64
"""Bytes of a signature of a statement."""

KEY_LINE_LIMIT = 512
"""Characters of a peer's public line."""

VERSION = 1

STATEMENT_NAMESPACE = "satchel-answer"
"""What home's signatures of statements are for: they are OpenSSH's, by the owner's key."""

HOME_REPLICA = "home"
"""The replica of a statement of home's."""


@dataclass(frozen=True)
class Statement:
    """That a replica of a service has answered a request so.

    kind: `operation`, or `read` for what does not count; number: as the client numbered it; asked,
    answered: SHA-256 of the operation's record and of the normalised response, 32 bytes each.
    """

    service: str
    replica: str
    kind: str
    number: int
    asked: bytes
    answered: bytes

    def __post_init__(self) -> None:
        for value, what in ((self.service, "service name"), (self.replica, "replica id")):
            check_name(value, what)
        if self.kind not in ("operation", "read") or not 0 < self.number < 1 << 64:
            raise LocalProtocolError("no such request can have been answered")
        if len(self.asked) != 32 or len(self.answered) != 32:
            raise LocalProtocolError("a SHA-256 has 32 bytes")

    @classmethod
    def of(
        cls, service: str, replica: str, kind: str, number: int, asked: bytes, answered: bytes
    ) -> Statement:
        """asked, answered: the record and the response themselves"""
        digests = (hashlib.sha256(asked).digest(), hashlib.sha256(answered).digest())
        return cls(service, replica, kind, number, *digests)

    def to_bytes(self) -> bytes:
        """What is signed: the same bytes for the same statement, and others for any other."""
        lines = (
            f"satchel answer {VERSION}",
            f"service {self.service}",
            f"replica {self.replica}",
            f"{self.kind} {self.number}",
            f"asked {self.asked.hex()}",
            f"answered {self.answered.hex()}",
        )
        return "".join(f"{line}\n" for line in lines).encode("ascii")


class AnswerKey:
    """The private key that a surrogate signs its answers with. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Make the key at `path` (mode 0600) where there is none. Raises AccessError where it
        cannot be made or read, and what Identity raises."""
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            Identity.create(path, comment="satchel answers")
        self.public = Identity.open(path).public
        try:
            key = load_ssh_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm, OSError) as error:
            raise AccessError(f"cannot sign with {path}", why=str(error)[:200]) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise AccessError(f"cannot sign with {path}", why="it is not an ed25519 key")
        self._key = key

    def sign(self, statement: Statement) -> bytes:
        """SIGNATURE_SIZE bytes."""
        return self._key.sign(statement.to_bytes())


class AnswerSigner:
    """The public key of a surrogate that signs its answers. Thread-safe."""

    def __init__(self, public: str) -> None:
        """public: a peer's line. Raises RemoteProtocolError for one that is no ed25519 key."""
        try:
            if len(public) > KEY_LINE_LIMIT:
                raise ValueError(f"it has {len(public)} characters")
            key = load_ssh_public_key(public.encode("ascii"))
        except (ValueError, UnsupportedAlgorithm) as error:
            what = "the peer names a key for its answers that is none"
            raise RemoteProtocolError(what, why=str(error)[:200]) from error
        if not isinstance(key, Ed25519PublicKey):
            raise RemoteProtocolError("the key for a peer's answers is not an ed25519 key")
        self.public = " ".join(public.split()[:2])
        self._key = key

    def verify(self, statement: Statement, signature: bytes) -> None:
        """Raises SignatureInvalid."""
        try:
            self._key.verify(signature, statement.to_bytes())
        except InvalidSignature as error:
            what = f"the answer to {statement.kind} {statement.number} is not signed by its replica"
            raise SignatureInvalid(what, why=f"{self.public} did not sign it") from error
