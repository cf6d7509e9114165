# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The leaves that this floor raises, and how an error crosses a machine boundary.

    UsageError        LocalProtocolError    our own code would have sent something malformed
    IntegrityError    RemoteProtocolError   the peer sent something malformed
                      SignatureInvalid      data is not what was signed
    UnavailableError  PeerUnreachable       nobody answers, or the connection broke
                      PeerTimeout           connected, and silent for too long
                      HostUnreachable       ssh reaches no sshd there
                      EgressFailed          what a guest may reach outside is not reached
    AccessError       WrongKey              the host does not accept our key
                      HostKeyMismatch       the host's key is not the one that is known
                      EgressRefused         a destination that a guest may not have
                      SignerUnknown         a good signature by a key that is not allowed

On the wire an error is `{"code","what","why","fix"}`. The code names a root; a leaf arrives as
its root, because the other side may be of a version that has other leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from satchel.errors import (
    ROOTS,
    AccessError,
    IntegrityError,
    SatchelError,
    UnavailableError,
    UsageError,
)

TEXT_LIMIT = 4000
"""Characters kept of each text of an error that a peer sent."""


class LocalProtocolError(UsageError):
    """This side would have violated the protocol."""


class RemoteProtocolError(IntegrityError):
    """The peer violated the protocol."""


class SignatureInvalid(IntegrityError):
    """The data differs from the signed data, or the signature is malformed."""


class PeerUnreachable(UnavailableError):
    """The peer's socket does not answer, or the connection broke before the answer was complete."""


class PeerTimeout(UnavailableError):
    """The peer connected and then was silent for longer than allowed."""


class HostUnreachable(UnavailableError):
    """ssh finds no sshd there, or the connection to it broke."""


class WrongKey(AccessError):
    """The host does not accept our key."""


class HostKeyMismatch(AccessError):
    """The host's key differs from known_hosts, or is not in it."""


class SignerUnknown(AccessError):
    """The signature is valid, but its key is not allowed to sign this."""


class SignerRevoked(SignerUnknown):
    """It was allowed to, and is not any more: it is revoked, or its time is over."""


STATUS: dict[str, int] = {
    "internal": 500,
    "usage": 400,
    "not-found": 404,
    "state": 409,
    "conflict": 409,
    "integrity": 422,
    "capacity": 507,
    "unavailable": 503,
    "access": 403,
    "unsupported": 501,
}
"""HTTP status of an answer that carries an error, by wire code."""

_CLASSES = {root.wire_code: root for root in ROOTS}

_CODES_BY_STATUS = {401: "access", 403: "access", 404: "not-found", 409: "conflict"} | {
    422: "integrity",
    500: "internal",
    501: "unsupported",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
    507: "capacity",
}


def code_of_status(status: int) -> str:
    """The wire code of an HTTP error that carries none: one made by the HTTP layer itself."""
    fallback = "usage" if 400 <= status < 500 else "internal"
    return _CODES_BY_STATUS.get(status, fallback)


def printable(text: str, limit: int = TEXT_LIMIT) -> str:
    """`text` from a peer, safe to show on a terminal: no control characters, bounded length."""
    shown = text if len(text) <= limit else text[:limit] + " [...]"
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in shown)


@dataclass(frozen=True)
class ErrorReport:
    """An error as it crosses the wire. Its texts are printable and bounded, whoever wrote them."""

    code: str
    what: str
    why: str
    fix: str

    def __post_init__(self) -> None:
        for name in ("code", "what", "why", "fix"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    @classmethod
    def of(cls, error: SatchelError) -> ErrorReport:
        return cls(error.wire_code, error.what, error.why, error.fix)

    @property
    def status(self) -> int:
        """Return the status of the HTTP answer that carries the report."""
        return STATUS.get(self.code, STATUS["internal"])

    @classmethod
    def from_json(cls, value: object) -> ErrorReport:
        """Never fails: what a peer says about a failure must not hide the failure."""
        fields: dict[str, Any] = value if isinstance(value, dict) else {}
        code = fields.get("code")
        texts = [fields.get(key) for key in ("what", "why", "fix")]
        what, why, fix = (text if isinstance(text, str) else "" for text in texts)
        known = code if isinstance(code, str) and code in _CLASSES else "internal"
        return cls(known, what or "the peer failed without saying how", why, fix)

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "what": self.what, "why": self.why, "fix": self.fix}

    def to_error(self) -> SatchelError:
        """An instance of the root class that the code names; SatchelError for an unknown code."""
        return _CLASSES.get(self.code, SatchelError)(self.what, why=self.why, fix=self.fix)
