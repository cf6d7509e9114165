# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reading an attached volume: lazily, rightly, and failing clearly."""

import concurrent.futures
import errno
import logging
import random
from pathlib import Path

import pytest

from chunkstore import BlockState, Store, TableRoot
from satchel.ids import BLOCK_SIZE
from tests.needs import requires
from tests.volumes.conftest import BLOCKS, Attach
from tests.volumes.nbd_client import NbdClient, Refused
from volumes import Volume

pytestmark = requires("nbdkit")


def test_attaching_fetches_nothing(attach: Attach) -> None:
    attachment = attach()
    with attachment.connect() as client:
        assert client.size == attachment.volume.size
    assert attachment.misses == []


def test_a_block_is_asked_for_once(attach: Attach, image: bytes) -> None:
    attachment = attach()
    with attachment.connect() as client:
        for _ in range(3):
            assert client.read(5 * BLOCK_SIZE + 7, 100) == image[5 * BLOCK_SIZE + 7 :][:100]
    assert attachment.misses == [(5, 1)]
    assert attachment.server.misses.requests == 1


def reads_of(pid: int) -> int:
    """How often a process has called the system to read, `pread` included."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("syscr"))


def test_a_hit_costs_one_pread_and_asks_nobody(attach: Attach) -> None:
    """And one read more, of the request itself."""
    attachment = attach()
    hits = 100
    with attachment.connect() as client:
        client.read(0, hits * BLOCK_SIZE)
        asked, before = list(attachment.misses), reads_of(attachment.server.pid)
        for block in range(hits):
            client.read(block * BLOCK_SIZE, BLOCK_SIZE)
        assert reads_of(attachment.server.pid) - before <= 2 * hits
    assert attachment.misses == asked


def test_neighbours_go_into_one_request(attach: Attach, image: bytes) -> None:
    attachment = attach()
    with attachment.connect() as client:
        client.read(30 * BLOCK_SIZE, 1)
        length = 600 * BLOCK_SIZE
        assert client.read(10 * BLOCK_SIZE, length) == image[10 * BLOCK_SIZE :][:length]
    assert attachment.misses == [(30, 1), (10, 20), (31, 256), (287, 256), (543, 67)]


def test_what_the_machine_touches_is_noted_in_its_order(attach: Attach) -> None:
    attachment = attach()
    with attachment.connect() as client:
        client.read(30 * BLOCK_SIZE + 1, BLOCK_SIZE)
        client.write(7 * BLOCK_SIZE, b"guest")
        client.read(30 * BLOCK_SIZE, 1)
    assert attachment.volume.map.touched() == [30, 31, 7]


def test_the_whole_volume_with_its_short_last_block(attach: Attach, image: bytes) -> None:
    with attach().connect() as client:
        assert client.read(0, len(image)) == image
        assert client.read(len(image) - 9, 9) == image[-9:]


def test_random_reads_from_several_connections(attach: Attach, image: bytes) -> None:
    attachment = attach()

    def read_some(seed: int) -> None:
        rng = random.Random(seed)
        with attachment.connect() as client:
            for _ in range(100):
                offset = rng.randrange(len(image))
                length = min(len(image) - offset, rng.choice((1, 512, 4096, 50_000)))
                assert client.read(offset, length) == image[offset : offset + length]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(read_some, range(8)))
    assert sum(count for _, count in attachment.misses) >= BLOCKS / 2


def test_a_resolver_may_bring_more_than_was_asked_for(
    attach: Attach, store: Store, image: bytes
) -> None:
    def eager(volume: Volume, first: int, count: int) -> None:
        assert store.resolve(volume.root, volume.map, 0, volume.blocks) == b""

    attachment = attach(resolver=eager)
    with attachment.connect() as client:
        assert client.read(0, len(image)) == image
    assert len(attachment.misses) == 1


def test_resolver_failure_is_an_io_error_and_logged(
    attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(volume: Volume, first: int, count: int) -> None:
        raise RuntimeError("the link is cut")

    attachment = attach(resolver=broken)
    with caplog.at_level(logging.ERROR), attachment.connect() as client:
        with pytest.raises(OSError, match="EIO") as failure:
            client.read(0, BLOCK_SIZE)
        assert failure.value.errno == errno.EIO
        with pytest.raises(OSError, match="EIO"):
            client.write(1, b"part of an absent block")
        client.write(0, bytes(BLOCK_SIZE))
        assert client.read(0, BLOCK_SIZE) == bytes(BLOCK_SIZE)
    assert "the link is cut" in caplog.text
    assert "disk0" in caplog.text
    assert attachment.server.misses.failed == 2
    said = (attachment.server.run_dir / "nbdkit.log").read_text()
    assert "disk0: the daemon cannot bring 1 absent blocks from block 0" in said


def test_resolver_that_breaks_its_promise_is_an_io_error(attach: Attach) -> None:
    attachment = attach(resolver=lambda volume, first, count: None)
    with attachment.connect() as client, pytest.raises(OSError, match="EIO"):
        client.read(0, 1)
    assert "the block map says absent" in (attachment.server.run_dir / "nbdkit.log").read_text()


def test_what_cannot_be_kept_is_handed_on(
    attach: Attach, store: Store, root: TableRoot, image: bytes
) -> None:
    """Reads of any size, and the part of a block that a write leaves as it was."""

    def unkept(volume: Volume, first: int, count: int) -> bytes:
        offset, length = first * BLOCK_SIZE, count * BLOCK_SIZE
        return store.read(root, offset, min(length, root.size - offset)).ljust(length, b"\0")

    attachment = attach(resolver=unkept)
    with attachment.connect() as client:
        for offset, length in ((0, 1), (BLOCK_SIZE + 7, 3 * BLOCK_SIZE), (0, len(image))):
            assert client.read(offset, length) == image[offset : offset + length]
        assert attachment.volume.map.counts(0, BLOCKS)[BlockState.ABSENT] == BLOCKS
        client.write(BLOCK_SIZE + 5, b"new")
        now = image[: BLOCK_SIZE + 5] + b"new" + image[BLOCK_SIZE + 8 :]
        assert client.read(0, len(image)) == now
    assert attachment.volume.map.counts(0, BLOCKS)[BlockState.ABSENT] == BLOCKS - 1
    assert attachment.server.misses.failed == 0


def test_corrupt_record_is_an_io_error_and_logged(
    attach: Attach, store: Store, image: bytes
) -> None:
    attachment = attach()
    with attachment.connect() as client:
        assert client.read(0, len(image)) == image
        for pack in (store.packs_path).glob("*.pack"):
            with pack.open("r+b") as file:
                file.seek(16 + 64 + 10)
                byte = file.read(1)
                file.seek(-1, 1)
                file.write(bytes([byte[0] ^ 1]))
        damaged = 0
        for block in range(BLOCKS - 1):
            try:
                content = client.read(block * BLOCK_SIZE, BLOCK_SIZE)
                assert content == image[block * BLOCK_SIZE :][:BLOCK_SIZE]
            except OSError as error:
                assert error.errno == errno.EIO
                damaged += 1
        assert damaged > 0
    said = (attachment.server.run_dir / "nbdkit.log").read_text()
    assert "disk0: cannot read block" in said
    assert ".pack" in said


def test_unknown_export_is_refused(attach: Attach) -> None:
    attachment = attach()
    with pytest.raises(Refused):
        NbdClient(attachment.server.socket, "disk9")


def test_no_export_name_means_the_only_volume(attach: Attach, image: bytes) -> None:
    with NbdClient(attach().server.socket, "") as client:
        assert client.read(0, 64) == image[:64]
