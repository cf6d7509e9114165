# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Volumes whose chunks are in frames, before and while they are read."""

import random
import threading

from chunkstore import BlockState, Store
from satchel.ids import BLOCK_SIZE
from tests.needs import requires
from tests.overlay.conftest import Attach

pytestmark = requires("nbdkit")


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


def test_settling_while_a_volume_is_read(store: Store, attach: Attach, image: bytes) -> None:
    attachment = attach()
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
