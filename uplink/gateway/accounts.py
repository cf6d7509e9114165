# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who asks a service, and what is known of each account there.

An account is a name and never a secret: the user of `Basic`, a digest of a `Bearer` token, the
key of a signature, or nobody. What is kept or held for an account is given only to a request with
the very credentials that the service has accepted; these stay in memory. A signature is good for
one request: what it gets is what the service says to it, unless we have the key's secret and can
tell that it is true.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uplink.policy import Knowledge, read_signature
from wire import read_credentials

USER, KEY = "user:", "key:"

ALIASES = 1000
"""Etags of held uploads that are remembered after the service gave its own."""


@dataclass
class Account:
    """authorization: that the service accepted last; None while it has not. aliases: etags that we
    gave held files, and what the service calls these; secret: of a key that signs. Locked by
    `guard`."""

    service: str
    name: str
    authorization: str | None = None
    secret: str = ""
    knowledge: Knowledge = field(default_factory=Knowledge)
    aliases: dict[str, str] = field(default_factory=dict)
    guard: threading.RLock = field(default_factory=threading.RLock)

    @property
    def user(self) -> str | None:
        """Who has a password; None for an account that is known by something else."""
        return self.name.removeprefix(USER) if self.name.startswith(USER) else None

    def accepts(self, authorization: str) -> bool:
        """Whether the service has accepted these very credentials last."""
        known = self.authorization
        return known is not None and hmac.compare_digest(known.encode(), authorization.encode())

    def answered(self, authorization: str, status: int) -> None:
        """What a service's answer says of the credentials."""
        with self.guard:
            if status in (401, 403, 407):
                if status != 403 and self.accepts(authorization):
                    self.authorization = None
            elif status < 500:
                self.authorization = authorization

    def alias(self, ours: str, theirs: str) -> None:
        with self.guard:
            self.aliases[ours] = theirs
            while len(self.aliases) > ALIASES:
                del self.aliases[next(iter(self.aliases))]


class Accounts:
    """Those that programs have used since the daemon began. Any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._accounts: dict[tuple[str, str], Account] = {}

    def get(self, service: str, name: str) -> Account:
        with self._guard:
            return self._accounts.setdefault((service, name), Account(service, name))

    def load(self, service: str, path: Path) -> None:
        """Take the credentials of a file with USER:PASSWORD, or KEY:SECRET of one that signs.
        Raises BadCredentials."""
        found = read_credentials(path)
        self.get(service, KEY + found.user).secret = found.password
        self.get(service, user_account(found.user)).authorization = found.authorization


def account_name(headers: Mapping[str, str]) -> str | None:
    """Whose a request is; None where that cannot be told, or where the credentials are for this one
    request. headers: by names in lower case."""
    authorization = headers.get("authorization", "")
    if not authorization:
        return None if "cookie" in headers else ""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            user = base64.b64decode(token.strip(), validate=True).partition(b":")[0]
        except (binascii.Error, ValueError):
            return None
        try:
            return user_account(user.decode())
        except UnicodeDecodeError:
            return f"bytes:{user.hex()}"
    if scheme.lower() == "bearer":
        return f"token:{hashlib.sha256(token.strip().encode()).hexdigest()[:32]}"
    signature = read_signature(headers)
    return None if signature is None else KEY + signature.key


def user_account(user: str) -> str:
    """The name of the account of a user who has a password."""
    return USER + user
