# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Keys and signatures are OpenSSH's."""

import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.errors import AccessError, ConflictError, NotFoundError
from wire import (
    Identity,
    LocalProtocolError,
    SignatureInvalid,
    SignerRevoked,
    SignerUnknown,
    allowed_signers_line,
    fingerprint,
    known_hosts_line,
    signer_of,
    verify_signer,
)

KIND = "satchel-checkpoint"


@pytest.fixture
def other(tmp_path: Path) -> Identity:
    return Identity.create(tmp_path / "other")


def test_a_key_is_private_and_has_a_comment(me: Identity) -> None:
    assert stat.S_IMODE(me.path.stat().st_mode) == 0o600
    assert me.public.startswith("ssh-ed25519 ")
    assert me.public.endswith(" satchel")
    assert Identity.open(me.path) == me


def test_a_key_is_never_overwritten(me: Identity) -> None:
    with pytest.raises(ConflictError):
        Identity.create(me.path)


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="ssh-keygen -y"):
        Identity.open(tmp_path / "none")
    with pytest.raises(AccessError):
        Identity.create(tmp_path / "no" / "folder")


def test_the_fingerprint_is_openssh_s(me: Identity) -> None:
    argv = ["ssh-keygen", "-l", "-f", str(me.path)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert fingerprint(me.public) == me.fingerprint == said.split()[1]


def test_a_signature_belongs_to_its_data_its_kind_and_its_key(
    me: Identity, other: Identity
) -> None:
    data = bytes(range(256)) * 1000
    signature = me.sign(data, KIND)
    assert signer_of(data, signature, KIND) == me.fingerprint
    assert signer_of(data, other.sign(data, KIND), KIND) == other.fingerprint
    with pytest.raises(SignatureInvalid):
        signer_of(data + b"x", signature, KIND)
    with pytest.raises(SignatureInvalid):
        signer_of(data, signature, "another-kind")


@pytest.mark.parametrize("signature", [b"", b"junk", b"\xff\0", b"-----BEGIN SSH SIGNATURE-----\n"])
def test_a_signature_that_is_none(me: Identity, signature: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        signer_of(b"data", signature, KIND)


def test_an_empty_text_can_be_signed(me: Identity) -> None:
    assert signer_of(b"", me.sign(b"", KIND), KIND) == me.fingerprint


def test_a_key_that_others_can_read_does_not_sign(me: Identity) -> None:
    me.path.chmod(0o644)
    with pytest.raises(AccessError, match="cannot sign"):
        me.sign(b"data", KIND)


def test_allowed_signers_say_who_may_sign_what(
    me: Identity, other: Identity, tmp_path: Path
) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(allowed_signers_line("owner", me.public, namespaces=[KIND]) + "\n")

    def verify(key: Identity, signer: str, kind: str) -> None:
        signature = key.sign(b"data", kind)
        verify_signer(b"data", signature, allowed_signers=allowed, signer=signer, namespace=kind)

    verify(me, "owner", KIND)
    with pytest.raises(SignerUnknown, match=r"SHA256:.* may not sign as owner"):
        verify(other, "owner", KIND)
    with pytest.raises(SignerUnknown):
        verify(me, "guest", KIND)
    with pytest.raises(SignerUnknown):
        verify(me, "owner", "another-kind")
    with pytest.raises(LocalProtocolError):
        verify(me, "own er", KIND)


def revoke_as_krl(path: Path, key: Identity) -> None:
    argv = ["ssh-keygen", "-q", "-k", "-f", str(path), f"{key.path}.pub"]
    subprocess.run(argv, check=True)


def revoke_as_line(path: Path, key: Identity) -> None:
    path.write_text(key.public + "\n")


@pytest.mark.parametrize("revoke", [revoke_as_krl, revoke_as_line])
def test_a_key_that_is_revoked_signs_no_more(
    me: Identity, other: Identity, tmp_path: Path, revoke: Callable[[Path, Identity], None]
) -> None:
    allowed = tmp_path / "allowed"
    lines = [allowed_signers_line("owner", k.public, namespaces=[KIND]) for k in (me, other)]
    allowed.write_text("\n".join(lines) + "\n")

    def verify(key: Identity) -> None:
        signature = key.sign(b"data", KIND)
        verify_signer(b"data", signature, allowed_signers=allowed, signer="owner", namespace=KIND)

    verify(me)
    revoke(tmp_path / "revoked_keys", me)
    with pytest.raises(SignerRevoked, match=r"signs as owner no more: .*revoked_keys revokes it"):
        verify(me)
    verify(other)


def test_what_is_no_list_of_revoked_keys_lets_nobody_sign(me: Identity, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(allowed_signers_line("owner", me.public, namespaces=[KIND]) + "\n")
    revoked = tmp_path / "revoked_keys"
    signature = me.sign(b"data", KIND)
    revoked.symlink_to(tmp_path / "list")  # at first it leads nowhere
    for content in (None, b"junk\n"):
        if content:
            (tmp_path / "list").write_bytes(content)
        with pytest.raises(SignerRevoked):
            verify_signer(
                b"data", signature, allowed_signers=allowed, signer="owner", namespace=KIND
            )


def test_a_key_whose_time_is_over_signs_no_more(me: Identity, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    line = allowed_signers_line("owner", me.public, namespaces=[KIND])
    allowed.write_text(line.replace("namespaces", 'valid-before="20200101",namespaces') + "\n")
    with pytest.raises(SignerRevoked, match=r"valid-before in .* is over"):
        verify_signer(
            b"data",
            me.sign(b"data", KIND),
            allowed_signers=allowed,
            signer="owner",
            namespace=KIND,
        )


def test_known_hosts_lines_name_ports_but_22(me: Identity) -> None:
    kind, key, _ = me.public.split()
    assert known_hosts_line("10.0.0.1", 22, me.public) == f"10.0.0.1 {kind} {key}"
    assert known_hosts_line("::1", 2200, me.public) == f"[::1]:2200 {kind} {key}"


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "ssh-ed25519 !!!", "x y", "a\nb c"])
def test_what_is_no_public_key(line: str) -> None:
    with pytest.raises(LocalProtocolError):
        fingerprint(line)
