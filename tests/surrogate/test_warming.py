# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the operator brings into the cache before the first guest comes."""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chunkstore import name_blocks, split_refs
from satchel.errors import AccessError, CapacityError, UsageError
from satchel.ids import BLOCK_SIZE, ZERO_REF
from surrogate.cache.warming import PIECE, files_of, pieces_of
from surrogate.operator import credentials
from surrogate.operator_api import operator_app
from surrogate.tenant_sockets import TenantSockets
from tests.needs import requires
from tests.serving import served
from tests.surrogate.conftest import Site
from wire import HttpClient

SIZES = (1, 4095, 4096, 4097, 200_000, PIECE, PIECE + 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of several sizes, a sparse one, and a link out of it."""
    made = tmp_path / "files"
    (made / "below").mkdir(parents=True)
    for size in SIZES:
        (made / "below" / str(size)).write_bytes(Random(size).randbytes(size))
    with (made / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "elsewhere").write_bytes(b"not to be read" * 1000)
    (made / "link").symlink_to(tmp_path / "elsewhere")
    return made


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    """Its cache has room for 32 MiB."""
    made = Site(short_path, cache_mib=32)
    yield made
    made.close()


@pytest.fixture
def daemon(site: Site) -> Iterator[HttpClient]:
    sockets = TenantSockets(site.host, idle_seconds=3600.0)
    with served(operator_app(site.host, sockets), site.settings.run, peer="spot") as client:
        yield client
    sockets.close()


def names(blocks: bytes) -> set[bytes]:
    return set(split_refs(name_blocks(blocks)))


def warm(site: Site, daemon: HttpClient, body: bytes) -> dict[str, int]:
    headers = credentials(site.settings.run) | {"Content-Type": "application/octet-stream"}
    answer = daemon.request("POST", "/v1/cache", body=body, headers=headers)
    return dict(json.loads(answer.body))


def test_a_folder_and_an_archive_of_it_have_the_same_blocks(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "files.tar", "w") as archive:
        archive.add(folder, ".")
    found = b"".join(pieces_of(files_of(folder)))
    assert names(found) == names(b"".join(pieces_of(files_of(tmp_path / "files.tar"))))
    assert len(found) == sum(-(-size // BLOCK_SIZE) for size in SIZES) * BLOCK_SIZE


@requires("mke2fs")
def test_what_lies_in_files_on_a_disk_is_found_in_their_folder(
    folder: Path, tmp_path: Path
) -> None:
    """A disk that the tools of ext4 made: but for its own tables all of it was brought."""
    disk, empty = tmp_path / "disk", tmp_path / "empty"
    (tmp_path / "nothing").mkdir()
    for path, of in ((disk, folder / "below"), (empty, tmp_path / "nothing")):
        argv = ["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", str(of), str(path), "64M"]
        subprocess.run(argv, check=True)
    brought = names(b"".join(pieces_of(files_of(folder / "below"))))
    assert brought <= names(disk.read_bytes())
    own = names(disk.read_bytes()) - brought - {bytes(ZERO_REF)}
    assert len(own) < len(names(empty.read_bytes())) + 10


def test_what_is_brought_is_in_the_cache_and_counted_once(
    site: Site, daemon: HttpClient, folder: Path
) -> None:
    for piece in pieces_of(files_of(folder)):
        assert len(piece) <= PIECE
        blocks = len(piece) // BLOCK_SIZE
        assert warm(site, daemon, piece) == {"blocks": blocks, "new": blocks}
        assert warm(site, daemon, piece) == {"blocks": blocks, "new": 0}
        assert all(site.host.store.has(name_blocks(piece)))


def test_half_a_block_is_refused(site: Site, daemon: HttpClient) -> None:
    for body in (b"", b"x", bytes(BLOCK_SIZE + 1)):
        with pytest.raises(UsageError, match="whole blocks"):
            warm(site, daemon, body)


def test_nothing_is_given_up_for_it(site: Site, daemon: HttpClient) -> None:
    chance = Random(7)
    pieces = [chance.randbytes(PIECE) for _ in range(64)]
    brought = 0
    with pytest.raises(CapacityError, match="the cache is full"):
        for piece in pieces:
            warm(site, daemon, piece)
            brought += 1
    assert brought * PIECE > 16 << 20
    assert all(all(site.host.store.has(name_blocks(piece))) for piece in pieces[:brought])


def test_only_the_operator_brings_anything(site: Site, daemon: HttpClient) -> None:
    body, kind = bytes(BLOCK_SIZE), {"Content-Type": "application/octet-stream"}
    with pytest.raises(AccessError):
        daemon.request("POST", "/v1/cache", body=body, headers=kind)
