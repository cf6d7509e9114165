# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Volumes whose chunks are in frames, before and while they are read."""

import random
import threading
from pathlib import Path

import pytest

from chunkstore import BlockState, Store
from satchel.ids import BLOCK_SIZE
from tests.needs import requires
from tests.volumes.conftest import Attach
from volumes import RawBlocks

pytestmark = requires("nbdkit")


def used(unpacked: RawBlocks) -> int:
    """Bytes that it takes up on the disk."""
    assert unpacked.path is not None
    return unpacked.path.stat().st_blocks * 512


def test_a_settled_volume_reads_right(store: Store, attach: Attach, image: bytes) -> None:
    store.settle()
    rng = random.Random(3)
    with attach().connect() as client:
        for _ in range(300):
            offset = rng.randrange(len(image))
            length = rng.choice((1, 512, BLOCK_SIZE, 5 * BLOCK_SIZE + 9))
            data = image[offset : offset + length]
            assert client.read(offset, len(data)) == data
        assert client.read(0, len(image)) == image
        client.write(7 * BLOCK_SIZE + 5, b"written")
        expected = bytearray(image[6 * BLOCK_SIZE : 9 * BLOCK_SIZE])
        expected[BLOCK_SIZE + 5 : BLOCK_SIZE + 12] = b"written"
        assert client.read(6 * BLOCK_SIZE, 3 * BLOCK_SIZE) == bytes(expected)


def test_what_is_kept_unpacked_is_read_again_by_every_server(
    store: Store, attach: Attach, image: bytes, tmp_path: Path
) -> None:
    store.settle()
    with RawBlocks(tmp_path) as unpacked:
        with attach(unpacked=unpacked).connect() as first:
            assert first.read(0, len(image)) == image
            kept = used(unpacked)
            assert kept > sum(path.stat().st_size for path in store.packs_path.iterdir())
            assert first.read(0, len(image)) == image
        with attach(unpacked=unpacked).connect() as second:
            assert second.read(0, len(image)) == image
            second.write(7 * BLOCK_SIZE, b"w" * BLOCK_SIZE)
            assert second.read(7 * BLOCK_SIZE, BLOCK_SIZE) == b"w" * BLOCK_SIZE
        assert used(unpacked) < kept + 16 * BLOCK_SIZE  # the file system's own, at most


def test_a_settled_volume_is_read_from_what_is_kept(
    store: Store, attach: Attach, image: bytes, tmp_path: Path
) -> None:
    store.settle()
    with RawBlocks(tmp_path) as unpacked, attach(unpacked=unpacked).connect() as client:
        assert client.read(0, len(image)) == image
        for pack in store.packs_path.iterdir():
            pack.write_bytes(bytes(pack.stat().st_size))
        assert client.read(0, len(image)) == image


def test_what_is_not_settled_is_not_kept_unpacked(
    attach: Attach, image: bytes, tmp_path: Path
) -> None:
    with RawBlocks(tmp_path) as unpacked, attach(unpacked=unpacked).connect() as client:
        before = used(unpacked)
        assert client.read(0, len(image)) == image
        assert used(unpacked) == before


def test_a_settled_volume_reads_right_where_nothing_can_be_kept(
    store: Store, attach: Attach, image: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.settle()
    with RawBlocks(tmp_path / "missing") as nowhere:
        assert nowhere.path is None
        assert "nothing is kept unpacked" in caplog.text
        assert attach(unpacked=nowhere).connect().read(0, len(image)) == image
    with RawBlocks(tmp_path, limit=1) as small:
        assert small.path is None
    with RawBlocks(tmp_path, limit=2 << 20) as less:
        with attach(unpacked=less).connect() as client:
            for _ in range(2):
                assert client.read(0, len(image)) == image
        assert used(less) <= 2 << 20
    assert not list(tmp_path.glob("tmp*"))


@pytest.mark.parametrize("kept", (False, True))
def test_settling_while_a_volume_is_read(
    store: Store, attach: Attach, image: bytes, tmp_path: Path, kept: bool
) -> None:
    unpacked = RawBlocks(tmp_path) if kept else None
    attachment = attach(unpacked=unpacked)
    errors: list[BaseException] = []
    settled = threading.Event()

    def read(seed: int) -> None:
        rng = random.Random(seed)
        try:
            with attachment.connect() as client:
                while True:
                    last = settled.is_set()
                    for _ in range(50):
                        offset = rng.randrange(len(image) - 3 * BLOCK_SIZE)
                        data = image[offset : offset + 3 * BLOCK_SIZE]
                        assert client.read(offset, len(data)) == data
                    if last:
                        return
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    with attachment.connect() as client:
        assert client.read(0, len(image)) == image
        before = attachment.volume.map.count(BlockState.PACKED)
        for thread in threads:
            thread.start()
        report = store.settle()
        settled.set()
        for thread in threads:
            thread.join()
        assert not errors
        assert (report.pinned, report.damaged) == (0, 0)
        assert client.read(0, len(image)) == image
    block_map = attachment.volume.map
    entries = [block_map.entry(n) for n in range(block_map.blocks)]
    packed = [entry for entry in entries if entry.state is BlockState.PACKED]
    assert len(packed) == before > 0
    assert all(entry.length > BLOCK_SIZE for entry in packed)
    if unpacked is not None:
        unpacked.close()
