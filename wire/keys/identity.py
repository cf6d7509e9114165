# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who is who: OpenSSH keys, signatures by them, and the files that say whom to believe.

There is no other identity in Satchel. A public key is the one line of an OpenSSH `.pub` file,
"TYPE BASE64 COMMENT". Keys and signatures are made and checked by `ssh-keygen`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import (
    AccessError,
    ConflictError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from wire.errors import LocalProtocolError, SignatureInvalid, SignerRevoked, SignerUnknown

REVOKED = "revoked_keys"
"""Beside a file of allowed signers: those of its keys that sign no more."""

_SECONDS = 20.0
_KEY_TYPE = re.compile(r"(sk-)?(ssh|ecdsa)-[a-z0-9@.-]+")
_SIGNER = re.compile(r"[A-Za-z0-9@._+-]+")


@dataclass(frozen=True)
class Identity:
    """A private key file and its public line. Safe to share between threads."""

    path: Path
    public: str

    @classmethod
    def create(cls, path: Path, *, comment: str = "satchel") -> Identity:
        """Make an ed25519 key pair without a passphrase at `path` (mode 0600) and `path`.pub.

        Raises ConflictError if either file exists, AccessError where they cannot be written.
        """
        if path.exists() or _public_path(path).exists():
            raise ConflictError(f"cannot make a key at {path}", why="there is one already")
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
        done = run_keygen(argv)
        if done.returncode != 0:
            raise AccessError(f"cannot make a key at {path}", why=_tail(done))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Identity:
        """The key pair at `path` and `path`.pub. Raises NotFoundError, or LocalProtocolError if
        the second holds no public key."""
        try:
            line = _public_path(path).read_text(encoding="utf-8").strip()
        except FileNotFoundError as error:
            fix = f"make it with: ssh-keygen -y -f {path} > {path}.pub"
            raise NotFoundError(f"no public key {path}.pub", fix=fix) from error
        _parts(line)
        return cls(path, line)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    def sign(self, data: bytes, namespace: str) -> bytes:
        """The armored signature (SSHSIG) of `data`.

        namespace: what kind of thing is signed, so that a signature of one kind never passes for
        another. Raises AccessError when the key is absent, readable by others or locked.
        """
        done = run_keygen(["ssh-keygen", "-Y", "sign", "-f", str(self.path), "-n", namespace], data)
        if done.returncode != 0:
            raise AccessError(f"cannot sign with {self.path}", why=_tail(done))
        return done.stdout


def fingerprint(public: str) -> str:
    """What OpenSSH prints for a public line: "SHA256:..."."""
    digest = hashlib.sha256(_decode(_parts(public)[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def verify_signer(
    data: bytes, signature: bytes, *, allowed_signers: Path, signer: str, namespace: str
) -> None:
    """Return if a key that the file `allowed_signers` grants to `signer` signed `data`.

    Where a file REVOKED lies beside it, no key counts that is in there: a KRL, or public keys, one
    a line. A key whose `valid-before` is over does not count either.

    Raises SignatureInvalid if the signature is not one of `data`, SignerUnknown if it is one by a
    key that is not allowed, for this namespace, to this signer, SignerRevoked.
    """
    if not _SIGNER.fullmatch(signer):
        raise LocalProtocolError(f"{signer[:80]!r} cannot name a signer")
    made_by = signer_of(data, signature, namespace)
    argv = ["-Y", "verify", "-f", str(allowed_signers), "-I", signer, "-n", namespace]
    done, revoked = _with_signature(argv, data, signature), allowed_signers.with_name(REVOKED)
    over = ""
    if b"has expired" in done.stderr:
        over = f"its valid-before in {allowed_signers} is over"
    elif done.returncode == 0 and os.path.lexists(revoked):
        again = _with_signature([*argv, "-r", str(revoked)], data, signature)
        over = f"{revoked} revokes it, or cannot be read" if again.returncode != 0 else ""
    if over:
        what = f"key {made_by} signs as {signer} no more"
        raise SignerRevoked(what, why=over, fix="use data that a newer key has signed")
    if done.returncode != 0:
        raise SignerUnknown(
            f"key {made_by} may not sign as {signer}",
            why=f"{allowed_signers} does not allow it",
            fix="add its public key there if you trust it",
        )


def signer_of(data: bytes, signature: bytes, namespace: str) -> str:
    """The fingerprint of the key that signed `data`, whoever it belongs to.

    Raises SignatureInvalid.
    """
    done = _with_signature(["-Y", "check-novalidate", "-n", namespace], data, signature)
    found = re.search(r"SHA256:[A-Za-z0-9+/]+", done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0 or found is None:
        raise SignatureInvalid("a signature does not belong to its data", why=_tail(done))
    return found.group()


def allowed_signers_line(signer: str, public: str, *, namespaces: Iterable[str]) -> str:
    """A line for an allowed_signers file: `signer` may sign these kinds with this key."""
    kind, blob = _parts(public)
    return f'{signer} namespaces="{",".join(namespaces)}" {kind} {blob}'


def known_hosts_line(address: str, port: int, public: str) -> str:
    """A line for a known_hosts file: the sshd at this address and port has this key."""
    kind, blob = _parts(public)
    place = address if port == 22 else f"[{address}]:{port}"
    return f"{place} {kind} {blob}"


def knows_host(known_hosts: Path, address: str, port: int) -> bool:
    """Whether a known_hosts file has a key, or an authority, for the sshd at this address; names
    there may be hashed. Raises UnsupportedError."""
    return _known_lines(known_hosts, address, port).returncode == 0


def known_fingerprints(
    known_hosts: Path, address: str, port: int, *, authorities: bool = False
) -> list[str]:
    """Of the keys that a known_hosts file has for the sshd at this address. An authority is no such
    key, unless `authorities`: it stands for all hosts of a site. Raises UnsupportedError."""
    kinds = ("", "@cert-authority") if authorities else ("",)
    every = _known_keys(known_hosts, address, port)
    return [fingerprint(key) for marker, key in every if marker in kinds]


def aliased_lines(known_hosts: Path, address: str, port: int, alias: str) -> list[str]:
    """The lines of a known_hosts file for the sshd at this address, with `alias` in its place: for
    an ssh with that HostKeyAlias, which reaches it elsewhere. Raises UnsupportedError."""
    every = _known_keys(known_hosts, address, port)
    return [f"{marker} {alias} {key}".strip() for marker, key in every]


def _known_keys(known_hosts: Path, address: str, port: int) -> list[tuple[str, str]]:
    """The marker of each line, such as `@cert-authority`, and its key."""
    found = []
    for line in (
        _known_lines(known_hosts, address, port).stdout.decode("utf-8", "replace").split("\n")
    ):
        marker, rest = ("", line) if line[:1] != "@" else line.split(" ", 1)
        if line[:1] != "#" and (key := rest.partition(" ")[2]):
            found.append((marker, key))
    return found


def _known_lines(known_hosts: Path, address: str, port: int) -> subprocess.CompletedProcess[bytes]:
    place = address if port == 22 else f"[{address}]:{port}"
    return run_keygen(["ssh-keygen", "-F", place, "-f", str(known_hosts)])


def authorized_keys_line(public: str, command: str, *, comment: str) -> str:
    """A line for an authorized_keys file: sshd runs `command` for this key, and nothing else."""
    kind, blob = _parts(public)
    quoted = command.replace('"', '\\"')
    return f'restrict,command="{quoted}" {kind} {blob} {comment}'


def _with_signature(
    arguments: Sequence[str], data: bytes, signature: bytes
) -> subprocess.CompletedProcess[bytes]:
    with tempfile.NamedTemporaryFile(suffix=".sig") as file:
        file.write(signature)
        file.flush()
        return run_keygen(["ssh-keygen", *arguments, "-s", file.name], data)


def run_keygen(argv: Sequence[str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `ssh-keygen` to its end, however it ends. Raises UnsupportedError, UnavailableError."""
    try:
        return subprocess.run(argv, input=data, capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError as error:
        raise UnsupportedError("no ssh-keygen", fix="install openssh-client") from error
    except subprocess.TimeoutExpired as error:
        why = f"no end after {_SECONDS:.0f} s"
        raise UnavailableError("ssh-keygen hangs", why=why) from error


def _tail(done: subprocess.CompletedProcess[bytes]) -> str:
    text = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    return text[-500:] or f"ssh-keygen ended with {done.returncode}"


def _public_path(path: Path) -> Path:
    return path.with_name(path.name + ".pub")


def _parts(public: str) -> tuple[str, str]:
    words = public.split()
    if len(words) < 2 or "\n" in public.strip() or not _KEY_TYPE.fullmatch(words[0]):
        raise LocalProtocolError(f"{public[:80]!r} is not a public key")
    _decode(words[1])
    return words[0], words[1]


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # also what is not ASCII, which is no binascii.Error
        raise LocalProtocolError("a public key is not base64", why=str(error)) from error
