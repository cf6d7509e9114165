# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A site's authority: the two OpenSSH keys that certify its guests and its hosts.

A guest with a certificate of the user authority may log in until it expires, and no file of the
site is edited for that. A client that pins the host authority believes every host of the site.
`ssh-keygen` makes the certificates.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity

from satchel.errors import AccessError, NotFoundError, UnavailableError, UnsupportedError
from wire.errors import LocalProtocolError
from wire.keys.identity import Identity, fingerprint, known_hosts_line, run_keygen

GUEST_HOURS = 12
"""How long a guest's certificate is good."""

HOST_WEEKS = 520
"""How long a host's certificate is good: ten years, as long as the host authority is kept."""

KEYSCAN_SECONDS = 20

ALREADY_BEFORE = "-5m"
"""A guest's clock may be behind the site's."""

_PRINCIPAL = re.compile(r"[A-Za-z0-9:+/=._-]{1,128}")


@dataclass(frozen=True)
class Authority:
    """Both keys of a site. Thread-safe."""

    users: Identity
    hosts: Identity

    @classmethod
    def create(cls, folder: Path) -> Authority:
        """Make both keys in `folder`. Raises ConflictError where there is one, AccessError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        users = Identity.create(folder / "users", comment="satchel user authority")
        return cls(users, Identity.create(folder / "hosts", comment="satchel host authority"))

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Those of `folder`. Raises NotFoundError where the site has none yet."""
        if not (folder / "users.pub").exists():
            raise NotFoundError(
                f"this site has no authority in {folder}",
                fix="make one with `satchel-surrogate authority init`",
            )
        return cls(Identity.open(folder / "users"), Identity.open(folder / "hosts"))

    def certify_guest(self, public: str, *, user: str, command: str) -> str:
        """A certificate for a guest's key, one line: `user` may log in for GUEST_HOURS.

        The key id and a principal are the key's fingerprint, by which the site knows the guest.
        command: the only one that sshd runs for it. Raises AccessError, LocalProtocolError.
        """
        known_as = fingerprint(public)
        for principal in (user, known_as):
            if not _PRINCIPAL.fullmatch(principal):
                raise LocalProtocolError(f"{principal[:80]!r} is not a principal")
        options = ["-O", "clear", "-O", f"force-command={command}"]
        during = ["-V", f"{ALREADY_BEFORE}:+{GUEST_HOURS}h", "-z", str(secrets.randbits(63))]
        names = ["-I", known_as, "-n", f"{user},{known_as}"]
        return _certified(self.users, public, [*names, *during, *options])

    def certify_host(self, public: str, names: Sequence[str]) -> str:
        """A certificate for a host's key, one line: it is the host of these names and addresses.
        Raises AccessError, LocalProtocolError."""
        for name in names:
            if not _PRINCIPAL.fullmatch(name):
                raise LocalProtocolError(f"{name[:80]!r} is not the name of a host")
        arguments = ["-h", "-I", names[0], "-n", ",".join(names), "-V", f"-1d:+{HOST_WEEKS}w"]
        return _certified(self.hosts, public, arguments)


def read_certificate(line: str) -> SSHCertificate:
    """Return the OpenSSH certificate in this line, of any age and by any authority.

    Raises LocalProtocolError if the line is malformed or the signature is not the authority's.
    """
    what, why = f"{line[:80]!r} is not a certificate", ""
    try:
        found = load_ssh_public_identity(line.strip().encode())
        if isinstance(found, SSHCertificate) and "\n" not in line.strip():
            found.verify_cert_signature()
            return found
    except (ValueError, UnsupportedAlgorithm) as error:
        why = str(error)
    except InvalidSignature:
        why = "its signature is wrong"
    raise LocalProtocolError(what, why=why)


def authority_line(address: str, port: int, public: str) -> str:
    """A line for a known_hosts file: who this key certifies is the host at this address."""
    return f"@cert-authority {known_hosts_line(address, port, public)}"


def host_keys(address: str, port: int) -> list[str]:
    """Return the public lines of the keys that the sshd there shows. They are not verified: ask on
    the host itself. Raises UnavailableError, UnsupportedError."""
    argv = ["ssh-keyscan", "-T", str(KEYSCAN_SECONDS), "-p", str(port), address]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=4 * KEYSCAN_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise UnsupportedError("no ssh-keyscan", fix="install openssh-client") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"the sshd at {address} port {port} is silent") from error
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
    found = [line.split(None, 1)[1] for line in lines]
    if not found:
        raise UnavailableError(
            f"no sshd answers at {address} port {port}",
            fix="start it, or say its port with --ssh-port",
        )
    return found


def _certified(by: Identity, public: str, arguments: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="satchel-certificate-") as folder:
        key = Path(folder) / "key.pub"
        key.write_text(public.strip() + "\n", encoding="utf-8")
        done = run_keygen(["ssh-keygen", "-q", "-s", str(by.path), *arguments, str(key)])
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise AccessError(f"cannot certify with {by.path}", why=said[-500:])
        return key.with_name("key-cert.pub").read_text(encoding="utf-8").strip()
