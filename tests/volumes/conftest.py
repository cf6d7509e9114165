# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A store with one image in it, and volumes of it attached by a real nbdkit."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot
from satchel.ids import BLOCK_SIZE
from tests.volumes.nbd_client import NbdClient
from volumes import RawBlocks, Resolver, Volume, VolumeServer, create_volume, local_resolver

BLOCKS = 1500
TAIL = 1234
"""Bytes in the image's last block: a volume need not end with a whole one."""


@dataclass
class Attachment:
    """One served volume, and the misses that its resolver was asked about."""

    server: VolumeServer
    volume: Volume
    misses: list[tuple[int, int]] = field(default_factory=list)

    def connect(self) -> NbdClient:
        return NbdClient(self.server.socket, self.volume.name)

    @property
    def uri(self) -> str:
        return self.server.uri(self.volume.name)


Attach = Callable[..., Attachment]


@pytest.fixture(scope="session")
def image() -> bytes:
    """Incompressible, compressible, zero and repeated blocks, in runs and mixed."""
    rng = random.Random(2)
    kinds: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(BLOCK_SIZE),
        lambda: rng.randbytes(64) * (BLOCK_SIZE // 64),
        lambda: bytes(BLOCK_SIZE),
        lambda: b"again and again " * (BLOCK_SIZE // 16),
    ]
    blocks: list[bytes] = []
    while len(blocks) < BLOCKS:
        kind = rng.choice(kinds)
        blocks += [kind() for _ in range(rng.choice((1, 2, 3, 40)))]
    return b"".join(blocks)[: (BLOCKS - 1) * BLOCK_SIZE + TAIL]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store") as made:
        yield made


@pytest.fixture
def root(store: Store, image: bytes, tmp_path: Path) -> TableRoot:
    path = tmp_path / "image"
    path.write_bytes(image)
    return store.import_file(path)


@pytest.fixture
def attach(store: Store, root: TableRoot, short_path: Path) -> Iterator[Attach]:
    """Attaches the image, or another root, from a folder of its own; stops all at the end."""
    attached: list[Attachment] = []

    def make(
        name: str = "disk0",
        *,
        of: TableRoot | None = None,
        read_only: bool = False,
        resolver: Resolver | None = None,
        miss_wait: int = 30,
        unpacked: RawBlocks | None = None,
    ) -> Attachment:
        run_dir = short_path / str(len(attached))
        run_dir.mkdir()
        volume = create_volume(run_dir, name, of or root, read_only)
        resolve = resolver or local_resolver(store)
        misses: list[tuple[int, int]] = []

        def counted(volume: Volume, first: int, count: int) -> bytes | None:
            misses.append((first, count))
            return resolve(volume, first, count)

        server = VolumeServer.start(
            run_dir,
            store.packs_path,
            [volume],
            counted,
            miss_wait=miss_wait,
            unpacked=unpacked,
        )
        attached.append(Attachment(server, volume, misses))
        return attached[-1]

    yield make
    for attachment in attached:
        attachment.server.stop()
