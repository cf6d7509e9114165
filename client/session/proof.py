# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""That a surrogate and home have answered one operation differently, for who has neither: two
statements, each signed by its maker; docs/formats/evidence.md.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import IntegrityError, NotFoundError, SatchelError
from satchel.typed import Form, TypeMismatch
from wire import (
    HOME_REPLICA,
    STATEMENT_NAMESPACE,
    AnswerSigner,
    SignedStatement,
    Statement,
    fingerprint,
    signer_of,
)

NAME = "proof.json"

VERSION = 1

SIZE_LIMIT = 64 << 10


class ProofInvalid(IntegrityError):
    """The proof does not show that a surrogate and home answered differently."""


@dataclass(frozen=True)
class Proof:
    """See the module. surrogate: what the client calls it; operation: its number; asked: SHA-256 of
    its record, in hex. Nothing is verified but by `verify`."""

    version: int
    surrogate: str
    service: str
    operation: int
    asked: str
    surrogate_says: SignedStatement
    home_says: SignedStatement

    @classmethod
    def of(
        cls, surrogate: str, said: Statement, key: str, signature: bytes, home: SignedStatement
    ) -> Proof:
        """Of what a surrogate has signed, and what home says of the same operation. Raises
        ProofInvalid."""
        theirs = SignedStatement(
            said.replica, said.answered.hex(), key, base64.b64encode(signature).decode("ascii")
        )
        about = (said.service, said.number, said.asked.hex())
        proof = cls(VERSION, surrogate, *about, theirs, home)
        proof.verify()
        return proof

    @classmethod
    def read(cls, path: Path) -> Proof:
        """That in a file, or in a folder of evidence. Raises NotFoundError, ProofInvalid."""
        path = path / NAME if path.is_dir() else path
        try:
            with path.open("rb") as file:
                return cls.decode(file.read(SIZE_LIMIT + 1))
        except OSError as error:
            why = error.strerror or str(error)
            raise NotFoundError(f"no proof at {path}", why=why) from error

    @classmethod
    def decode(cls, data: bytes) -> Proof:
        """Raises ProofInvalid."""
        try:
            if len(data) > SIZE_LIMIT:
                raise ValueError(f"it has more than {SIZE_LIMIT} bytes")
            proof: Proof = Form().typed(json.loads(data), cls, "the proof")
            if proof.version != VERSION:
                raise ValueError(f"it is of version {proof.version}")
        except (TypeMismatch, ValueError, RecursionError) as error:
            raise ProofInvalid("this is not a proof", why=str(error)[:200]) from error
        return proof

    def encode(self) -> bytes:
        return json.dumps(Form().plain(self), indent=1).encode() + b"\n"

    def verify(self) -> None:
        """Return if both signatures are good, are of the same request, and the answers differ.
        Whose the keys are is for the caller to know. Raises ProofInvalid."""
        theirs, home = self.surrogate_says, self.home_says
        try:
            AnswerSigner(theirs.key).verify(
                self._statement(theirs), base64.b64decode(theirs.signature, validate=True)
            )
            data = self._statement(home).to_bytes()
            made_by = signer_of(data, home.signature.encode(), STATEMENT_NAMESPACE)
            if made_by != fingerprint(home.key):
                raise ProofInvalid("home's statement is not signed by the key named")
        except (SatchelError, ValueError, binascii.Error) as error:
            raise ProofInvalid("this proves nothing", why=str(error)[:300]) from error
        if home.replica != HOME_REPLICA or theirs.replica == HOME_REPLICA:
            raise ProofInvalid("this proves nothing", why="it is not about home and a surrogate")
        if theirs.answered == home.answered:
            raise ProofInvalid("this proves nothing", why="both have answered the same")

    def _statement(self, says: SignedStatement) -> Statement:
        asked, answered = bytes.fromhex(self.asked), bytes.fromhex(says.answered)
        about = (self.service, says.replica, "operation", self.operation)
        return Statement(*about, asked, answered)
