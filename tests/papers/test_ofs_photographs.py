# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application's files without its processing: a folder, rclone and NFS over a link."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from papers.ofs.network import Link
from papers.ofs.offload import files_alone
from papers.ofs.photo import program
from papers.ofs.photo_files import enhance, take
from papers.ofs.photographs import by_nfs, by_rclone
from tests.needs import requires
from tests.waiting import eventually

COUNT = 2


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    folder = tmp_path / "prepared"
    folder.mkdir()
    program("take", folder, COUNT)
    program("enhance", folder)
    return folder


def test_each_file_is_as_the_application_made_it(prepared: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    assert files_alone(prepared, place, place).early == 0
    for path in prepared.rglob("*.jpg"):
        assert (place / path.relative_to(prepared)).read_bytes() == path.read_bytes()
    assert not list((place / "work").iterdir())


def test_who_reads_a_photo_that_is_not_whole_counts_it(prepared: Path, tmp_path: Path) -> None:
    take(prepared, tmp_path)
    photo = tmp_path / "inbox" / "photo-001.jpg"
    whole = photo.read_bytes()
    photo.write_bytes(whole[:100])
    early: list[int] = []
    enhancing = threading.Thread(target=lambda: early.append(enhance(prepared, tmp_path)))
    enhancing.start()
    done = tmp_path / "done.txt"
    assert eventually(lambda: done.exists() and done.read_text() != "")
    assert done.read_text().split() == ["photo-000.jpg"]
    photo.write_bytes(whole)
    enhancing.join()
    assert early[0] > 0


@requires("root", "netns", "fuse", "rclone")
def test_rclone_brings_home_what_was_taken_and_back_what_was_made(
    prepared: Path, tmp_path: Path
) -> None:
    place = tmp_path / "rclone"
    place.mkdir()
    session = by_rclone(prepared, place, Link(0.02, 20e6 / 8))
    for kind, count in (("inbox", session.sent), ("enhanced", session.received)):
        files = list((prepared / kind).iterdir())
        assert count > sum(path.stat().st_size for path in files)
        assert all((place / "root" / kind / f.name).read_bytes() == f.read_bytes() for f in files)


@pytest.mark.nightly
@requires("root", "netns", "qemu-system-x86_64", "mmdebstrap", "exportfs")
def test_nfs_takes_home_what_was_taken_and_back_what_was_made(
    prepared: Path, tmp_path: Path
) -> None:
    """Who looks, and who enhances, ends when it has read what there is to be."""
    place = tmp_path / "nfs"
    place.mkdir()
    session = by_nfs(prepared, place, Link(0.02, 20e6 / 8))
    for kind, count in (("inbox", session.sent), ("enhanced", session.received)):
        assert count > sum(path.stat().st_size for path in (prepared / kind).iterdir())
