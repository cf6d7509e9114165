# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The file of those whom an operator has banned: nobody comes back by its damage."""

import stat
from pathlib import Path

import pytest

from satchel.errors import NotFoundError
from surrogate.tenants.ban_list import BanList, BanListDamaged, BanListVersion, TenantBanned
from surrogate.tenants.tenant import InvalidIdentity, checked_identity

LINES = b"satchel-surrogate banned 1\nSHA256:a+b/c=\nanna-cafe\n"
GOLDEN = LINES + (b"sha256 cee17f748b943136d064939aa361fe4429a11deefabf71336c3fc6a5db9c35be\n")


def test_it_is_these_bytes(tmp_path: Path) -> None:
    path = tmp_path / "banned"
    banned = BanList(path)
    for identity in ("anna-cafe", "SHA256:a+b/c="):
        banned.add(identity)
    assert path.read_bytes() == GOLDEN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_outlives_the_daemon(tmp_path: Path) -> None:
    path = tmp_path / "banned"
    path.write_bytes(GOLDEN)
    banned = BanList(path)
    with pytest.raises(TenantBanned, match="its operator has banned anna-cafe"):
        banned.require_none("anna-cafe")
    banned.require_none("anna")
    banned.remove("anna-cafe")
    with pytest.raises(NotFoundError):
        banned.remove("anna-cafe")
    BanList(path).require_none("anna-cafe")
    with pytest.raises(TenantBanned):
        BanList(path).require_none("SHA256:a+b/c=")


def test_a_damaged_one_lets_nobody_in_silently(tmp_path: Path) -> None:
    """Cut anywhere, or with any byte changed."""
    path = tmp_path / "banned"
    damaged = [GOLDEN[:size] for size in range(len(GOLDEN))]
    for at in range(len(GOLDEN)):
        damaged += [GOLDEN[:at] + bytes([new]) + GOLDEN[at + 1 :] for new in range(256)]
    damaged += [GOLDEN + b"\n", GOLDEN + GOLDEN, LINES]
    for data in damaged:
        if data == GOLDEN:
            continue
        path.write_bytes(data)
        with pytest.raises((BanListDamaged, BanListVersion)):
            BanList(path)
    path.write_bytes(GOLDEN.replace(b"banned 1", b"banned 2"))
    with pytest.raises(BanListVersion):
        BanList(path)


@pytest.mark.parametrize("text", ["", "a b", "a\n", "../x\0", "é", "x" * 129, None, 7, ["a"]])
def test_what_is_no_identity_is_refused(text: object) -> None:
    with pytest.raises(InvalidIdentity):
        checked_identity(text)
