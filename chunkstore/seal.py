# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of sealed media: made, wrapped for those who may open a medium, kept, revoked.

A sealed medium has a key of 32 random bytes, and what is on it is sealed under keys that are made
of that (docs/formats/sealed.md). The file `satchel/key.age` has it for each recipient, in the
format of age: SSH public keys of the owner, and the recovery phrase, which is an age identity.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pyrage
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from satchel.errors import AccessError, UsageError
from satchel.files import NotRegular, open_regular, sync_folder, write_durably
from satchel.ids import CheckpointId

SEAL_KEY_SIZE = 32
WRAPPED_LIMIT = 64 << 10
"""Bytes of a key.age that is read: some hundred recipients."""

_REVOKED = b"revoked"
_NAME_STEP = 16
_HEX = "0123456789abcdef"


class MediaSealed(AccessError):
    """A medium is sealed, and nothing here opens it."""


class MediaRevoked(AccessError):
    """A medium was revoked: what is on it is not believed, and nothing is written to it."""


@dataclass(frozen=True)
class Seal:
    """What one medium is sealed with. key: 32 bytes, in memory only"""

    key: bytes

    @property
    def content(self) -> bytes:
        """The key of what is in files."""
        return self._derived("content")

    def log_secret(self, service: str) -> bytes:
        """The key of the operations in a service's log."""
        return self._derived(f"log of {service}")

    def log_name(self, service: str) -> str:
        """What the names of a log's files begin with."""
        return self._derived(f"name of the log of {service}")[:16].hex()

    def file_name(self, service: str, checkpoint: CheckpointId) -> str:
        """The name of a checkpoint's files, without what follows the dot. Its length tells that of
        the service's name, in steps of 16."""
        plain = bytes.fromhex(checkpoint) + service.encode()
        plain += bytes(-len(service) % _NAME_STEP)
        return self._names.encrypt(plain, None).hex()

    def named_by(self, name: str) -> tuple[str, str] | None:
        """Service and checkpoint, of which nothing is checked; None for a name of somebody else."""
        if len(name) % 2 or any(letter not in _HEX for letter in name):
            return None
        try:
            plain = self._names.decrypt(bytes.fromhex(name), None)
            return plain[8:].rstrip(b"\0").decode(), plain[:8].hex()
        except (InvalidTag, ValueError):
            return None

    @property
    def _names(self) -> AESSIV:
        return AESSIV(self._derived("names, first") + self._derived("names, second"))

    def _derived(self, purpose: str) -> bytes:
        return hmac.digest(self.key, b"satchel medium 1: " + purpose.encode(), "sha256")


@dataclass(frozen=True)
class NewSeal:
    """A key that was just made. wrapped: for key.age; phrase: opens it, and is written nowhere"""

    key: bytes
    wrapped: bytes
    phrase: str


def new_seal(public_keys: Sequence[str]) -> NewSeal:
    """A key for a new medium, for these SSH public keys (ed25519 or RSA) and a phrase. Raises
    UsageError for what is no such key."""
    identity = pyrage.x25519.Identity.generate()
    recipients: list[pyrage.ssh.Recipient | pyrage.x25519.Recipient] = [identity.to_public()]
    for line in public_keys:
        try:
            recipients.append(pyrage.ssh.Recipient.from_str(line.strip()))
        except pyrage.RecipientError as error:
            raise UsageError(
                f"nothing can be sealed for the key {line.strip()[:60]!r}",
                why=str(error),
                fix="name a file with an SSH public key, of the type ssh-ed25519 or ssh-rsa",
            ) from error
    key = secrets.token_bytes(SEAL_KEY_SIZE)
    return NewSeal(key, pyrage.encrypt(key, recipients), str(identity))


class SealKeys:
    """The keys of media that this program opens: those that it keeps, and those that an SSH key of
    its user unwraps, which it keeps from then on. Thread-safe."""

    def __init__(self, folder: Path | None = None, identities: Sequence[Path] = ()) -> None:
        """folder: of kept keys, readable by the user alone; need not exist; None: keeps none.
        identities: private SSH
        keys without a passphrase, which need not exist."""
        self._folder = folder
        self._identities = tuple(identities)

    def seal_of(self, root: Path, uuid: str) -> Seal | None:
        """What opens the medium at `root`; None for one that is not sealed.

        One whose key is kept counts as sealed whatever it says itself. Raises MediaSealed,
        MediaRevoked, NotRegular, OSError.
        """
        with suppress(FileNotFoundError):
            if self._folder:
                return self._checked(root, uuid, (self._folder / uuid).read_bytes())
        wrapped = wrapped_key(root)
        if wrapped is None:
            return None
        for path in self._identities:
            with suppress(FileNotFoundError, pyrage.IdentityError, pyrage.DecryptError):
                identity = pyrage.ssh.Identity.from_buffer(path.read_bytes())
                key = pyrage.decrypt(wrapped, [identity])
                self.keep(uuid, key)
                return self._checked(root, uuid, key)
        raise MediaSealed(
            f"the medium at {root} is sealed",
            why="no key here opens it",
            fix="`satchel media unlock` opens it with the recovery phrase; a surrogate needs no "
            "medium, the client serves it",
        )

    def keep(self, uuid: str, key: bytes) -> None:
        """Durable on return. Raises OSError."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(self._folder / uuid, key, mode=0o600)

    def revoke(self, uuid: str) -> None:
        """From now on the medium is refused, here; its key is forgotten. Raises OSError, UsageError
        for what is no UUID."""
        try:
            self.keep(str(UUID(uuid)), _REVOKED)
        except ValueError as error:
            raise UsageError(f"{uuid} is no UUID of a medium") from error

    def unlock(self, root: Path, uuid: str, phrase: str) -> None:
        """Keep the key that the recovery phrase opens. Raises MediaSealed for a wrong phrase,
        UsageError for what is none or a medium that is not sealed."""
        wrapped = wrapped_key(root)
        if wrapped is None:
            raise UsageError(f"the medium at {root} is not sealed")
        try:
            identity = pyrage.x25519.Identity.from_str(phrase.strip().upper())
            self.keep(uuid, pyrage.decrypt(wrapped, [identity]))
        except pyrage.IdentityError as error:
            raise UsageError(
                "that is no recovery phrase", why="one begins with AGE-SECRET-KEY-1"
            ) from error
        except pyrage.DecryptError as error:
            raise MediaSealed(
                f"the medium at {root} stays sealed", why="the phrase is another medium's"
            ) from error

    def _checked(self, root: Path, uuid: str, key: bytes) -> Seal:
        if key == _REVOKED:
            raise MediaRevoked(
                f"the medium {uuid} at {root} was revoked",
                fix="remove the folder `satchel` from it and make it anew, or use another",
            )
        if len(key) != SEAL_KEY_SIZE:
            raise MediaSealed(
                f"cannot open the medium at {root}",
                why=f"its key has {len(key)} bytes, not {SEAL_KEY_SIZE}",
            )
        return Seal(key)


def wrapped_key(root: Path) -> bytes | None:
    """The bytes of key.age, whoever wrote them; None where there is none. Raises NotRegular,
    OSError, MediaSealed where it is larger than any."""
    path = _key_path(root)
    try:
        with open(open_regular(path, os.O_RDONLY), "rb") as file:  # noqa: PTH123
            wrapped = file.read(WRAPPED_LIMIT + 1)
    except FileNotFoundError:
        return None
    if len(wrapped) > WRAPPED_LIMIT:
        raise MediaSealed(f"cannot open {path}", why=f"it has more than {WRAPPED_LIMIT} bytes")
    return wrapped


def write_wrapped(root: Path, wrapped: bytes) -> None:
    """Write key.age, before there is a medium; durable on return. Raises OSError, NotRegular."""
    path = _key_path(root)
    if path.parent.is_symlink():
        raise NotRegular(path.parent, "a symbolic link")
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(wrapped)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _key_path(root: Path) -> Path:
    return root / "satchel" / "key.age"
