# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which guest a door serves, by the file that sshd writes about a session."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.doors import door_of
from tests.needs import requires
from wire import Authority, Identity, NobodyKnown, visitor
from wire.keys.visitor import VARIABLE

pytestmark = requires("ssh-keygen")


@pytest.fixture
def guest(tmp_path: Path) -> Identity:
    return Identity.create(tmp_path / "guest")


def let_in(folder: Path, line: str) -> str:
    (folder / "auth").write_text(f"publickey {line}\n")
    return visitor({VARIABLE: str(folder / "auth")}).identity


def certified(folder: Path, guest: Identity, *arguments: str) -> str:
    """A certificate by an authority that is not Satchel's own."""
    authority = Identity.create(folder / "authority")
    argv = ["ssh-keygen", "-q", "-s", str(authority.path), *arguments, f"{guest.path}.pub"]
    subprocess.run(argv, check=True, timeout=20)
    return guest.path.with_name("guest-cert.pub").read_text().strip()


def test_a_key_and_its_certificate_are_one_guest(tmp_path: Path, guest: Identity) -> None:
    line = Authority.create(tmp_path / "site").certify_guest(guest.public, user="u", command="door")
    assert let_in(tmp_path, line) == let_in(tmp_path, guest.public) == guest.fingerprint


def test_a_key_id_of_another_authority_names_the_guest(tmp_path: Path, guest: Identity) -> None:
    assert let_in(tmp_path, certified(tmp_path, guest, "-I", "ada.example")) == "ada.example"


@pytest.mark.parametrize("key_id", ["two words", "SHA256:" + "A" * 43, "x" * 129])
def test_a_key_id_that_names_no_guest_is_refused(
    tmp_path: Path, guest: Identity, key_id: str
) -> None:
    line = certified(tmp_path, guest, "-I", key_id)
    with pytest.raises(NobodyKnown):
        let_in(tmp_path, line)


def test_a_certificate_that_was_changed_is_refused(tmp_path: Path, guest: Identity) -> None:
    kind, body, *_ = certified(tmp_path, guest, "-I", "ada").split()
    other = body[:-8] + ("AAAA" if body[-8:-4] != "AAAA" else "BBBB") + body[-4:]
    with pytest.raises(NobodyKnown, match="its signature is wrong"):
        let_in(tmp_path, f"{kind} {other}")


def test_a_door_ends_with_the_certificate(tmp_path: Path, guest: Identity) -> None:
    """Both have links that stay open: that of the certificate ends, that of the key goes on."""
    ending = certified(tmp_path, guest, "-I", "ada", "-V", "-1m:+2s")
    doors = {}
    for name, line in {"ending": ending, "lasting": guest.public}.items():
        auth = tmp_path / f"auth-{name}"
        auth.write_text(f"publickey {line}\n")
        doors[name] = subprocess.Popen(
            door_of("satchel-surrogate", tmp_path),
            env=os.environ | {VARIABLE: str(auth)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    try:
        assert doors["ending"].wait(60) == 0
        assert doors["lasting"].poll() is None
    finally:
        for door in doors.values():
            door.kill()
            door.communicate()
