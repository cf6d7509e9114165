# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Grants on disk: docs/formats/share.md."""

from pathlib import Path

import pytest

from homeserver.edge import GrantRegistry, GrantsDamaged, ShareGrant
from satchel.errors import NotFoundError, UnsupportedError, UsageError

GOLDEN = b"""{
 "version": 1,
 "grants": [
  {
   "share": "papers",
   "service": "files",
   "surrogate": "cafe",
   "writable": true
  }
 ]
}
"""
CAFE = ShareGrant("papers", "files", "cafe", writable=True)


def test_the_bytes_are_those_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "grants"
    GrantRegistry(path).add(CAFE)
    assert path.read_bytes() == GOLDEN
    assert GrantRegistry(path).all() == [CAFE]


def test_a_service_has_one_grant_at_a_surrogate(tmp_path: Path) -> None:
    shelf = GrantRegistry(tmp_path / "grants")
    assert shelf.all() == []
    shelf.add(CAFE)
    reads = ShareGrant("photos", "files", "cafe", writable=False)
    far = ShareGrant("papers", "files", "far", writable=True)
    shelf.add(reads)
    shelf.add(far)
    assert shelf.all() == [far, reads]
    assert shelf.of("files", "cafe") == reads
    assert shelf.of("notes", "cafe") is None
    with pytest.raises(NotFoundError):
        shelf.remove("papers", "files", "cafe")
    shelf.remove("photos", "files", "cafe")
    assert shelf.all() == [far]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        GOLDEN.replace(b"1,", b"0,"),
        GOLDEN.replace(b"true", b"1"),
        GOLDEN.replace(b"cafe", b"../etc"),
        GOLDEN.replace(b'"writable"', b'"writeable"'),
    ],
)
def test_a_damaged_file_grants_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "grants"
    path.write_bytes(data)
    with pytest.raises(GrantsDamaged):
        GrantRegistry(path).of("files", "cafe")


def test_a_newer_version_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "grants"
    path.write_bytes(GOLDEN.replace(b"1,", b"2,"))
    with pytest.raises(UnsupportedError):
        GrantRegistry(path).all()


@pytest.mark.parametrize("word", ["", "..", "a/b", "A", "x" * 64])
def test_a_grant_has_names(word: str) -> None:
    with pytest.raises(UsageError):
        ShareGrant("papers", "files", word, writable=True)
