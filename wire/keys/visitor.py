# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The identity of a tenant or of a client of home, from the key that sshd accepted.

sshd writes into a file by what it let a session in, where `ExposeAuthInfo` is on. A key is known
by its fingerprint, and one with a certificate by the certificate's key id.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from satchel.errors import AccessError
from wire.errors import LocalProtocolError
from wire.keys.authority import read_certificate
from wire.keys.identity import fingerprint

VARIABLE = "SSH_USER_AUTH"
"""Names the file. sshd sets it; a client cannot."""

_BY_KEY = "publickey "
_CERTIFICATE = "-cert-v01@openssh.com"
_KEY_ID = re.compile(rb"[A-Za-z0-9:+/=._-]{1,128}")
_FINGERPRINT = "SHA256:"


class NobodyKnown(AccessError):
    """A door cannot identify its user."""


@dataclass(frozen=True)
class Visitor:
    """A tenant whom sshd has let in. until: when the certificate ends, in seconds since the epoch;
    infinite without a certificate."""

    identity: str
    until: float = math.inf


def visitor(environment: Mapping[str, str]) -> Visitor:
    """Return the visitor of this session. Raises NobodyKnown."""
    file = environment.get(VARIABLE, "")
    try:
        lines = Path(file).read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        raise NobodyKnown(
            "sshd does not say whose key this is",
            why=f"{VARIABLE} names no file of it: {error}" if file else f"{VARIABLE} is not set",
            fix="give sshd the lines that `sshd-config` prints",
        ) from error
    keys = [line.removeprefix(_BY_KEY) for line in lines if line.startswith(_BY_KEY)]
    if not keys:
        raise NobodyKnown("a guest has to come with a key", why="sshd let it in without one")
    if keys[0].split()[0].endswith(_CERTIFICATE):
        return _certified(keys[0])
    return Visitor(fingerprint(keys[0]))


def _certified(line: str) -> Visitor:
    try:
        certificate = read_certificate(line)
    except LocalProtocolError as error:
        raise NobodyKnown("cannot read the guest's certificate", why=error.why) from error
    if not _KEY_ID.fullmatch(certificate.key_id):
        raise NobodyKnown("a certificate has no key id that names a guest")
    known_as = certificate.key_id.decode("ascii")
    key = certificate.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    if known_as.startswith(_FINGERPRINT) and known_as != fingerprint(key.decode("ascii")):
        raise NobodyKnown("a certificate has another key's fingerprint for its key id")
    return Visitor(known_as, certificate.valid_before)
