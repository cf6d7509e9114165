# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of sealed media: made, wrapped for those who may open a medium, kept, changed, revoked.

A sealed medium has a key of 32 random bytes, and what is on it is sealed under keys that are made
of that (docs/formats/sealed.md). The file `satchel/key.age` has it for each recipient, in the
format of age: SSH public keys of the owner, and the recovery phrase (media/phrase.py).

Home signs the keys that it makes, and the signature is wrapped with them. A client takes no keys
that home has not signed.

A rotation gives the medium another key. What is written from then on is sealed under that; what is
there stays, so whoever has the newest key has those before as well. The second key is in
`satchel/key-2.age`, with the first one behind it, and so on. The steps of a rotation are in
homeserver/media/rotation.py.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pyrage
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from chunkstore import ENGINES_HERE, MediaEngines
from media.phrase import PhraseInvalid, identity_of, new_phrase
from satchel.errors import AccessError, IntegrityError, UsageError
from satchel.files import NotRegular, open_regular, sync_folder, write_durably
from satchel.ids import CheckpointId

SEAL_KEY_SIZE = 32
WRAPPED_LIMIT = 64 << 10
"""Bytes of a key.age that is read: some hundred recipients."""

KEYS_LIMIT = 16
"""How many keys a medium may have had."""

MEDIA_KEY_NAMESPACE = "satchel-media-key"
"""Of SSH signatures over the keys of a medium."""

Sign = Callable[[bytes], bytes]
"""Home's signature of bytes, in that namespace."""

Verify = Callable[[bytes, bytes], None]
"""Of bytes and a signature. Raises IntegrityError, AccessError where home has not signed them."""

_REVOKED = b"revoked"
_NEXT = ".next"
_DIGEST_SIZE = 32
_NO_KEYS = f"what is kept has {{}} bytes, no multiple of {SEAL_KEY_SIZE}"
_NAME_STEP = 16
_HEX = "0123456789abcdef"


class MediaSealed(AccessError):
    """A medium is sealed, and no key here opens it."""


class MediaRevoked(AccessError):
    """A medium was revoked. Its content is not trusted, and nothing is written to it."""


@dataclass(frozen=True)
class Seal:
    """What one medium is sealed with. keys: 32 bytes each, in memory only, the newest first; under
    that all is written, and what the others have sealed is read"""

    keys: tuple[bytes, ...]

    @property
    def content(self) -> bytes:
        """The keys of what is in files, one behind the other."""
        return b"".join(_derived(key, "content") for key in self.keys)

    def log_secret(self, service: str) -> bytes:
        """The key of the operations in a service's log."""
        return _derived(self.keys[0], f"log of {service}")

    def log_name(self, service: str) -> str:
        """What the names of a log's files begin with."""
        return _derived(self.keys[0], f"name of the log of {service}")[:16].hex()

    def file_names(self, service: str, checkpoint: CheckpointId) -> tuple[str, ...]:
        """The names that a checkpoint's files may have, without what follows the dot, the newest
        key's first. Their length tells that of the service's name, in steps of 16."""
        plain = bytes.fromhex(checkpoint) + service.encode()
        plain += bytes(-len(service) % _NAME_STEP)
        return tuple(_names(key).encrypt(plain, None).hex() for key in self.keys)

    def named_by(self, name: str) -> tuple[str, str] | None:
        """Service and checkpoint, of which nothing is checked; None for a name of somebody else."""
        if len(name) % 2 or any(letter not in _HEX for letter in name):
            return None
        for key in self.keys:
            with suppress(InvalidTag, ValueError):
                plain = _names(key).decrypt(bytes.fromhex(name), None)
                return plain[8:].rstrip(b"\0").decode(), plain[:8].hex()
        return None

    @property
    def before(self) -> tuple[Seal, ...]:
        """What the medium was sealed with before each rotation, the newest first."""
        return tuple(Seal(self.keys[n:]) for n in range(1, len(self.keys)))


def _names(key: bytes) -> AESSIV:
    return AESSIV(_derived(key, "names, first") + _derived(key, "names, second"))


def _derived(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, b"satchel medium 1: " + purpose.encode(), "sha256")


@dataclass(frozen=True)
class NewSeal:
    """A key that was just made. wrapped: it, those before, and a signature, for the file of the
    medium's keys; phrase: opens that, and is written nowhere; uuid: of the medium"""

    seal: Seal
    wrapped: bytes
    phrase: str
    uuid: str


@dataclass(frozen=True)
class PreviousSeal:
    """A medium that is to get another key. seal: what it has now"""

    uuid: str
    seal: Seal


def new_seal(
    public_keys: Sequence[str], *, sign: Sign | None = None, before: PreviousSeal | None = None
) -> NewSeal:
    """A key for these SSH public keys (ed25519 or RSA) and a phrase: of a new medium, or of one
    that had keys before.

    sign: what clients verify; without it only the phrase, and programs that verify nothing, open
    the medium. Raises UsageError for what is no such key, and where a medium had KEYS_LIMIT keys;
    what `sign` raises.
    """
    old = before.seal.keys if before else ()
    name = before.uuid if before else str(uuid4())
    if len(old) >= KEYS_LIMIT:
        raise UsageError(
            "the medium gets no other key",
            why=f"it has had {KEYS_LIMIT}",
            fix="remove the folder `satchel` from it and make it anew",
        )
    phrase = new_phrase()
    identity = pyrage.x25519.Identity.from_str(identity_of(phrase))
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
    keys = (secrets.token_bytes(SEAL_KEY_SIZE), *old)
    signature = sign(_statement(name, keys)) if sign else b""
    wrapped = pyrage.encrypt(b"".join(keys) + signature, recipients)
    return NewSeal(Seal(keys), wrapped, phrase, name)


def _statement(uuid: str, keys: Sequence[bytes]) -> bytes:
    """What home signs of a medium's keys, which stay secret."""
    return f"satchel media key 1\n{uuid}\n{hashlib.sha256(b''.join(keys)).hexdigest()}\n".encode()


class SealKeys:
    """The keys of media that this program opens: those that it keeps, and those that an SSH key of
    its user unwraps, which it keeps from then on. Thread-safe."""

    def __init__(
        self,
        folder: Path | None = None,
        identities: Sequence[Path] = (),
        verify: Verify | None = None,
        in_clear: MediaEngines = ENGINES_HERE,
    ) -> None:
        """folder: of kept keys, readable by the user alone; need not exist; None: keeps none.
        identities: private SSH keys without a passphrase, which need not exist. verify: of keys
        that are not kept yet; None: for home, which takes none but its own, and for tools.
        in_clear: what reads media that are not sealed."""
        self.in_clear = in_clear
        self._folder = folder
        self._identities = tuple(identities)
        self._verify = verify

    def seal_of(self, root: Path, uuid: str) -> Seal | None:
        """What opens the medium at `root`; None for one that is not sealed.

        One whose key is kept counts as sealed whatever it says itself. A newer key counts only
        where home has signed it and the kept ones are behind it. Raises MediaSealed, MediaRevoked,
        NotRegular, OSError.
        """
        kept = self._kept(root, uuid)
        wrapped = wrapped_keys(root)
        if not kept and not wrapped:
            return None
        refused = None
        for count in sorted((n for n in wrapped if n > len(kept)), reverse=True):
            opened = self._opened(uuid, wrapped[count])
            try:
                keys = self._verified(root, uuid, opened, count, kept)
            except MediaSealed as error:
                refused = error
                continue
            if keys:
                self.keep(uuid, Seal(keys))
                return Seal(keys)
        rotated = self._identities and wrapped and min(wrapped) > len(kept)
        if kept and not rotated:
            return Seal(kept)
        raise refused or MediaSealed(
            f"the medium at {root} is sealed",
            why="it got another key, which no key here opens" if kept else "no key here opens it",
            fix="`satchel media unlock` opens it with the recovery phrase; a surrogate needs no "
            "medium, the client serves it",
        )

    def keep(self, uuid: str, seal: Seal) -> None:
        """Durable on return. Raises OSError."""
        self._write(uuid, b"".join(seal.keys))
        self.forget_next(uuid)

    def keep_next(self, uuid: str, new: NewSeal) -> None:
        """Keep a key that the medium is about to get; it counts from when its file is whole there.
        Durable on return. Raises OSError."""
        self._write(uuid + _NEXT, hashlib.sha256(new.wrapped).digest() + b"".join(new.seal.keys))

    def next_of(self, uuid: str) -> Seal | None:
        """The key that a medium was about to get and has not got; None where there is none. Who was
        killed while a key came into force has left one that the medium has."""
        data = self._read(uuid + _NEXT)[_DIGEST_SIZE:]
        return Seal(_split(data)) if data and data != self._read(uuid) else None

    def forget_next(self, uuid: str) -> None:
        """Durable on return. Raises OSError."""
        if self._folder and (self._folder / (uuid + _NEXT)).exists():
            (self._folder / (uuid + _NEXT)).unlink()
            sync_folder(self._folder)

    def revoke(self, uuid: str) -> None:
        """From now on the medium is refused, here; its key is forgotten. Raises OSError, UsageError
        for what is no UUID."""
        try:
            name = str(UUID(uuid))
        except ValueError as error:
            raise UsageError(f"{uuid} is not the UUID of a medium") from error
        self._write(name, _REVOKED)
        self.forget_next(name)

    def require_standing(self, root: Path, uuid: str) -> None:
        """Raises MediaRevoked for a medium that is refused here, OSError."""
        self._kept(root, uuid)

    def revoked(self) -> list[str]:
        """The UUIDs of media that are refused here. Raises OSError."""
        if self._folder is None or not self._folder.is_dir():
            return []
        kept = sorted(path for path in self._folder.iterdir() if not path.suffix)
        return [path.name for path in kept if path.read_bytes() == _REVOKED]

    def unlock(self, root: Path, uuid: str, phrase: str, *, keep: bool = True) -> None:
        """Keep the key that the recovery phrase opens; without `keep` only look whether it opens
        it. Raises MediaSealed for a wrong phrase, MediaRevoked, PhraseInvalid, UsageError for a
        medium that is not sealed."""
        kept = self._kept(root, uuid)
        wrapped = wrapped_keys(root)
        if not wrapped:
            raise UsageError(f"the medium at {root} is not sealed")
        try:
            identity = pyrage.x25519.Identity.from_str(identity_of(phrase))
        except pyrage.IdentityError as error:
            raise PhraseInvalid("it is not whole") from error
        for count in sorted(wrapped, reverse=True):
            with suppress(pyrage.DecryptError):
                opened = pyrage.decrypt(wrapped[count], [identity])
                keys = self._verified(root, uuid, opened, count, kept)
                if keys:
                    return self.keep(uuid, Seal(keys)) if keep else None
        raise MediaSealed(
            f"the medium at {root} stays sealed",
            why="the phrase belongs to another medium, or predates the last key rotation",
        )

    def _kept(self, root: Path, uuid: str) -> tuple[bytes, ...]:
        data = self._read(uuid)
        if data == _REVOKED:
            raise MediaRevoked(
                f"the medium {uuid} at {root} was revoked",
                fix="remove the folder `satchel` from it and make it anew, or use another",
            )
        keys = _split(data)
        if data and not keys:
            raise MediaSealed(f"cannot open the medium at {root}", why=_NO_KEYS.format(len(data)))
        return keys

    def _opened(self, uuid: str, wrapped: bytes) -> bytes:
        """The content of a file of the medium's keys, if somebody here may open it."""
        for path in self._identities:
            with suppress(FileNotFoundError, pyrage.IdentityError, pyrage.DecryptError):
                identity = pyrage.ssh.Identity.from_buffer(path.read_bytes())
                return bytes(pyrage.decrypt(wrapped, [identity]))
        made = self._read(uuid + _NEXT)
        return (
            made[_DIGEST_SIZE:] if made[:_DIGEST_SIZE] == hashlib.sha256(wrapped).digest() else b""
        )

    def _verified(
        self, root: Path, uuid: str, opened: bytes, count: int, kept: tuple[bytes, ...]
    ) -> tuple[bytes, ...]:
        """The keys in that content, `count` of them with those that are kept at their end; none
        where that is not so. Raises MediaSealed where home has not signed them."""
        size = count * SEAL_KEY_SIZE
        keys, signature = _split(opened[:size]), opened[size:]
        if len(keys) != count or count < len(kept) or keys[count - len(kept) :] != kept:
            return ()
        if self._verify is not None:
            try:
                self._verify(_statement(uuid, keys), signature)
            except (IntegrityError, AccessError) as error:
                raise MediaSealed(
                    f"the medium at {root} has a key that home did not sign",
                    why=f"{error.what}: {error.why}" if error.why else error.what,
                    fix="`satchel-home media rotate` at home gives it one; pair with home again "
                    "where the client is older than the signatures",
                ) from error
        return keys

    def _read(self, name: str) -> bytes:
        """Nothing where nothing is kept."""
        with suppress(FileNotFoundError):
            return (self._folder / name).read_bytes() if self._folder else b""
        return b""

    def _write(self, name: str, data: bytes) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(self._folder / name, data, mode=0o600)


def _split(data: bytes) -> tuple[bytes, ...]:
    """The keys that stand one behind the other; none where that is no such thing."""
    if len(data) % SEAL_KEY_SIZE or len(data) > KEYS_LIMIT * SEAL_KEY_SIZE:
        return ()
    return tuple(data[at : at + SEAL_KEY_SIZE] for at in range(0, len(data), SEAL_KEY_SIZE))


def wrapped_keys(root: Path) -> dict[int, bytes]:
    """The bytes of the files with the medium's keys, whoever wrote them, by how many keys each has.
    Raises NotRegular, OSError, MediaSealed where one is larger than any."""
    found = {}
    for count in range(1, KEYS_LIMIT + 1):
        path = _key_path(root, count)
        with suppress(FileNotFoundError), open(open_regular(path, os.O_RDONLY), "rb") as file:  # noqa: PTH123
            found[count] = file.read(WRAPPED_LIMIT + 1)
            if len(found[count]) > WRAPPED_LIMIT:
                why = f"it has more than {WRAPPED_LIMIT} bytes"
                raise MediaSealed(f"cannot open {path}", why=why)
    return found


def write_wrapped(root: Path, new: NewSeal) -> None:
    """Write the file of a new key, whatever stands there: before there is a medium, or beside the
    file of the key before. Durable on return. Raises OSError, NotRegular."""
    path = _key_path(root, len(new.seal.keys))
    if path.parent.is_symlink():
        raise NotRegular(path.parent, "a symbolic link")
    path.parent.mkdir(exist_ok=True)
    _remove(path)
    with path.open("xb") as file:
        file.write(new.wrapped)
        file.flush()
        sync_folder(path.parent)  # FAT: its clusters are linked before its name leads there
        os.fsync(file.fileno())
    sync_folder(path.parent)


def remove_wrapped(root: Path, newest: int) -> None:
    """Remove the files of keys before the one with that count. Durable on return. Raises OSError,
    NotRegular."""
    for count in range(1, newest):
        _remove(_key_path(root, count))


def _remove(path: Path) -> None:
    """A file that is open keeps its clusters until its name is durably gone, as FAT needs it."""
    with suppress(FileNotFoundError), open(open_regular(path, os.O_RDONLY), "rb"):  # noqa: PTH123
        path.unlink()
        sync_folder(path.parent)


def _key_path(root: Path, count: int) -> Path:
    return root / "satchel" / ("key.age" if count == 1 else f"key-{count}.age")
