# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Statements of what was answered: their bytes, and that OpenSSL finds the signatures right too."""

import dataclasses
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from satchel.errors import AccessError, SatchelError, UsageError
from tests.needs import requires
from wire import AnswerKey, AnswerSigner, Identity, RemoteProtocolError, SignatureInvalid, Statement

SAID = Statement.of("notes", "notes-1", "operation", 17, b"asked", b"answered")

GOLDEN = b"""satchel answer 1
service notes
replica notes-1
operation 17
asked c66790da5943c4466dd80634deb63f4e19f07e7f81624f222b86fecf9fff6445
answered 68c780cd132a0299c7cd3fa8649783cbc2872a98d90cd4ed6b9696e3c61c4c68
"""


@pytest.fixture
def key(tmp_path: Path) -> AnswerKey:
    return AnswerKey(tmp_path / "identity" / "answers")


def test_the_bytes_are_these() -> None:
    assert SAID.to_bytes() == GOLDEN


def test_a_key_is_made_once_and_for_its_owner_alone(key: AnswerKey, tmp_path: Path) -> None:
    path = tmp_path / "identity" / "answers"
    assert path.stat().st_mode & 0o777 == 0o600
    assert AnswerKey(path).public == key.public


@requires("openssl")
def test_openssl_verifies_a_signature(key: AnswerKey, tmp_path: Path) -> None:
    public = load_ssh_public_key(key.public.encode())
    for name, data in {
        "key": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "said": SAID.to_bytes(),
        "other": SAID.to_bytes().replace(b"17", b"18"),
        "signature": key.sign(SAID),
    }.items():
        (tmp_path / name).write_bytes(data)
    argv = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "key"]
    argv += ["-sigfile", "signature", "-in"]
    verdicts = [
        subprocess.run([*argv, name], cwd=tmp_path, capture_output=True, check=False).returncode
        for name in ("said", "other")
    ]
    assert verdicts == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"service": "other"},
        {"replica": "notes-2"},
        {"kind": "read"},
        {"number": 18},
        {"asked": bytes(32)},
        {"answered": bytes(32)},
    ],
)
def test_a_signature_is_of_one_statement_only(key: AnswerKey, change: dict[str, object]) -> None:
    signer, signature = AnswerSigner(key.public), key.sign(SAID)
    signer.verify(SAID, signature)
    with pytest.raises(SignatureInvalid):
        signer.verify(dataclasses.replace(SAID, **change), signature)  # type: ignore[arg-type]


def test_another_key_or_no_signature_is_refused(key: AnswerKey, tmp_path: Path) -> None:
    signer, other = AnswerSigner(key.public), AnswerKey(tmp_path / "other")
    for signature in (other.sign(SAID), b"", bytes(64), key.sign(SAID)[:-1]):
        with pytest.raises(SignatureInvalid):
            signer.verify(SAID, signature)


@pytest.mark.parametrize("line", ["x", "ssh-ed25519 AAAA", "ssh-ed25519 " + "A" * 10_000, "\xff"])
def test_what_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(RemoteProtocolError):
        AnswerSigner(line)


def test_a_damaged_key_file_says_so(key: AnswerKey, tmp_path: Path) -> None:
    path = tmp_path / "identity" / "answers"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(AccessError, match="cannot sign"):
        AnswerKey(path)


@pytest.mark.parametrize(
    "change", [{"number": 0}, {"kind": "lie"}, {"service": "a\nb"}, {"asked": b""}]
)
def test_no_statement_is_of_what_cannot_be(change: dict[str, object]) -> None:
    with pytest.raises((UsageError, SatchelError)):
        dataclasses.replace(SAID, **change)  # type: ignore[arg-type]


def test_the_key_is_one_of_openssh(key: AnswerKey, tmp_path: Path) -> None:
    path = tmp_path / "identity" / "answers"
    done = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[:2] == key.public.split()[:2]
    assert Identity.open(path).public == key.public
