# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Writing to an attached volume: copy on write, and the commit of what is dirty."""

import concurrent.futures
import errno
import random
import threading
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot
from satchel.ids import BLOCK_SIZE, ZERO_REF
from tests.needs import requires
from tests.volumes.conftest import Attach
from tests.volumes.nbd_client import NbdClient
from tests.waiting import eventually
from volumes import Volume

pytestmark = requires("nbdkit")


def scribble(client: NbdClient, model: bytearray, rng: random.Random, requests: int) -> None:
    """Random requests of every kind, done to the volume and to `model` alike."""
    for _ in range(requests):
        length = rng.choice((1, 100, BLOCK_SIZE, 5000, 3 * BLOCK_SIZE, 100_000))
        offset = rng.randrange(len(model))
        if rng.random() < 0.5:
            offset -= offset % BLOCK_SIZE
        length = min(length, len(model) - offset)
        end = offset + length
        kind = rng.choice(("read", "read", "write", "write", "zero", "trim", "flush"))
        if kind == "read":
            assert client.read(offset, length) == model[offset:end]
        elif kind == "write":
            data = rng.randbytes(length)
            client.write(offset, data, fua=rng.random() < 0.1)
            model[offset:end] = data
        elif kind == "zero":
            client.zero(offset, length)
            model[offset:end] = bytes(length)
        elif kind == "trim":
            client.trim(offset, length)
            first = -(-offset // BLOCK_SIZE) * BLOCK_SIZE
            last = end if end == len(model) else end - end % BLOCK_SIZE
            model[first:last] = bytes(max(0, last - first))
        else:
            client.flush()


def test_any_request_against_a_model(attach: Attach, image: bytes) -> None:
    attachment = attach()
    model = bytearray(image)
    with attachment.connect() as client:
        scribble(client, model, random.Random(3), 1500)
        assert client.read(0, len(model)) == model


def test_commit_gives_back_the_same_bytes(
    attach: Attach, store: Store, image: bytes, tmp_path: Path
) -> None:
    attachment = attach()
    volume = attachment.volume
    model = bytearray(image)
    rng = random.Random(4)
    with attachment.connect() as client:
        for generation in range(4):
            scribble(client, model, rng, 100)
            # A commit needs the table's pages on the way to what is dirty: all are here.
            volume.root = store.commit(volume.root, volume.map, volume.overlay)
            volume.map.ask_for_space()  # given back beside all that follows
            assert client.read(0, len(model)) == model
            copy = tmp_path / f"export-{generation}"
            store.export_file(volume.root, copy)
            assert copy.read_bytes() == model
        assert eventually(lambda: volume.overlay.stat().st_blocks == 0)
        assert client.read(0, len(model)) == model
    again = attach(of=volume.root)
    with again.connect() as client:
        assert client.read(0, len(model)) == model


def test_space_is_given_back_of_what_is_not_dirty_only(attach: Attach, store: Store) -> None:
    attachment = attach()
    volume = attachment.volume
    with attachment.connect() as client:
        client.write(0, b"c" * 64 * BLOCK_SIZE)
        volume.root = store.commit(volume.root, volume.map, volume.overlay)
        assert volume.overlay.stat().st_blocks * 512 == 64 * BLOCK_SIZE  # not in the pause
        client.write(7 * BLOCK_SIZE, b"d" * BLOCK_SIZE)
        client.write(20 * BLOCK_SIZE + 5, b"d")
        volume.map.ask_for_space()
        assert eventually(lambda: volume.overlay.stat().st_blocks * 512 == 2 * BLOCK_SIZE)
        expected = bytearray(b"c" * 64 * BLOCK_SIZE)
        expected[7 * BLOCK_SIZE : 8 * BLOCK_SIZE] = b"d" * BLOCK_SIZE
        expected[20 * BLOCK_SIZE + 5] = ord("d")
        assert client.read(0, len(expected)) == expected


def test_a_volume_that_was_empty(attach: Attach, store: Store) -> None:
    attachment = attach("ram", of=TableRoot(ref=ZERO_REF, size=1 << 24))
    volume = attachment.volume
    model = bytearray(volume.size)
    with attachment.connect() as client:
        scribble(client, model, random.Random(5), 300)
        volume.root = store.commit(volume.root, volume.map, volume.overlay)
        assert client.read(0, len(model)) == model


def test_reads_during_a_commit_never_see_the_holes(
    attach: Attach, store: Store, image: bytes
) -> None:
    attachment = attach()
    volume = attachment.volume
    done = threading.Event()

    def watch() -> None:
        with attachment.connect() as client:
            while not done.is_set():
                assert client.read(0, len(image)) == image

    with concurrent.futures.ThreadPoolExecutor(2) as pool, attachment.connect() as client:
        for _ in range(5):
            client.write(0, image)
            done.clear()
            watchers = [pool.submit(watch) for _ in range(2)]
            volume.root = store.commit(volume.root, volume.map, volume.overlay)
            done.set()
            for watcher in watchers:
                watcher.result(timeout=60)


def test_writers_of_parts_of_one_block_do_not_undo_each_other(attach: Attach) -> None:
    attachment = attach()

    def write_stripe(index: int) -> None:
        with attachment.connect() as client:
            for block in range(200):
                client.write(block * BLOCK_SIZE + index * 512, bytes([index + 1]) * 512)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(write_stripe, range(8)))
    expected = b"".join(bytes([index + 1]) * 512 for index in range(8))
    with attachment.connect() as client:
        assert client.read(0, 200 * BLOCK_SIZE) == expected * 200


def test_writing_a_whole_absent_block_fetches_nothing(attach: Attach) -> None:
    attachment = attach()
    with attachment.connect() as client:
        client.write(3 * BLOCK_SIZE, b"w" * 5 * BLOCK_SIZE)
        client.zero(20 * BLOCK_SIZE, BLOCK_SIZE)
        client.trim(21 * BLOCK_SIZE, BLOCK_SIZE)
        last = attachment.volume.size // BLOCK_SIZE * BLOCK_SIZE
        client.write(last, b"e" * (attachment.volume.size - last))
        assert client.read(3 * BLOCK_SIZE, 5 * BLOCK_SIZE) == b"w" * 5 * BLOCK_SIZE
        assert client.read(20 * BLOCK_SIZE, 2 * BLOCK_SIZE) == bytes(2 * BLOCK_SIZE)
        assert attachment.misses == []
        client.write(40 * BLOCK_SIZE + 1, b"p")
        assert attachment.misses == [(40, 1)]


def test_a_late_fetch_does_not_undo_a_write(attach: Attach, store: Store, image: bytes) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(volume: Volume, first: int, count: int) -> None:
        asked.set()
        assert go_on.wait(30)
        assert store.resolve(volume.root, volume.map, first, count) == b""

    attachment = attach(resolver=slow)
    with (
        concurrent.futures.ThreadPoolExecutor(1) as pool,
        attachment.connect() as reader,
        attachment.connect() as writer,
    ):
        reading = pool.submit(reader.read, 0, 2 * BLOCK_SIZE)
        assert asked.wait(30)
        writer.write(0, b"n" * BLOCK_SIZE)
        go_on.set()
        expected = b"n" * BLOCK_SIZE + image[BLOCK_SIZE : 2 * BLOCK_SIZE]
        assert reading.result(timeout=30) == expected
        assert writer.read(0, 2 * BLOCK_SIZE) == expected


def test_the_store_below_stays_as_it_is(
    attach: Attach, store: Store, root: TableRoot, image: bytes, tmp_path: Path
) -> None:
    with attach().connect() as client:
        client.write(0, b"x" * len(image))
    store.export_file(root, tmp_path / "export")
    assert (tmp_path / "export").read_bytes() == image


def test_read_only_volume_refuses_writes(attach: Attach, image: bytes) -> None:
    attachment = attach(read_only=True)
    with attachment.connect() as client:
        assert client.read_only
        with pytest.raises(OSError, match="EPERM") as refused:
            client.write(0, b"no")
        assert refused.value.errno == errno.EPERM
        with pytest.raises(OSError, match="EPERM"):
            client.trim(0, BLOCK_SIZE)
        assert client.read(0, 10) == image[:10]
