# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program in QEMU's or nbdkit's place looks for another tenant's RAM in the packs of a cache."""

import dataclasses
import hashlib
import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chunkstore import BlockState, Store, TableRoot, references_below
from replica.attachment import RAM, Attachment
from sandbox import CellMounts, Cells
from satchel.confinement import HOST, Confinement
from satchel.ids import BLOCK_SIZE
from tests.needs import requires
from volumes import local_resolver

pytestmark = [requires("bwrap", "userns", "nbdkit", "nbdfuse", "fuse")]

SEEKER = Path(__file__).with_name("seeker.py")
BLOCKS = 300


class Tenant:
    """A machine's volumes in a cell, with every block brought."""

    def __init__(self, folder: Path, store: Store, cells: Cells) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.content = os.urandom(BLOCKS * BLOCK_SIZE)
        self.root: TableRoot = store.import_bytes(self.content)
        self.rooms: list[Confinement] = []

        def into(seen: CellMounts) -> Confinement:
            seen = dataclasses.replace(seen, readable=[*seen.readable, SEEKER])
            for path in seen.machine:
                path.touch(mode=0o600)
            (folder / "memory.ready").touch(mode=0o600)
            self.rooms.append(cells.room(seen, memory=64 << 20, processors=1, kvm=False))
            return self.rooms[0]

        self.attachment = Attachment.open(
            folder, store, {RAM: self.root}, local_resolver(store), into=into
        )
        self.volume = self.attachment.volumes[RAM]
        local_resolver(store)(self.volume, 0, BLOCKS)
        assert self.volume.map.count(BlockState.PACKED) == BLOCKS

    def words(self, count: int) -> list[int]:
        """The first entries of its map, as they are in the file."""
        data = self.volume.map_path.read_bytes()[4096 : 4096 + 8 * count]
        return [*struct.unpack(f"<{count}Q", data)]

    def seek(self, room: Confinement, victim: "Tenant", roots: list[str], machine: bool) -> Any:
        targets = {
            "needle": victim.content[100:164].hex(),
            "roots": roots,
            "map": str(self.volume.map_path),
            "places": victim.words(8),
        }
        output = self.folder / "seeker.log"
        output.unlink(missing_ok=True)
        python = str(Path(sys.executable).resolve())
        command = [python, "-I", "-S", str(SEEKER), json.dumps(targets)]
        process = room.start(command, output, machine=machine)
        assert process.ended(120.0)
        return json.loads(output.read_text())


@pytest.fixture
def store(short_path: Path) -> Iterator[Store]:
    (short_path / "closed").mkdir(mode=0o700)
    with Store.create(short_path / "closed" / "store") as made:
        yield made


@pytest.fixture
def tenants(short_path: Path, store: Store) -> Iterator[tuple[Tenant, Tenant]]:
    cells = Cells()
    both = [Tenant(short_path / name, store, cells) for name in ("victim", "mallory")]
    yield both[0], both[1]
    for one in both:
        one.attachment.close()


@pytest.mark.parametrize("machine", [True, False], ids=["qemu", "nbdkit"])
def test_it_finds_nothing_and_gets_its_own(
    tenants: tuple[Tenant, Tenant], store: Store, machine: bool
) -> None:
    victim, mallory = tenants
    seen = mallory.seek(mallory.rooms[0], victim, ["/"], machine)
    assert seen["found"] == []
    assert seen["sockets"] >= 2
    assert seen["read"] >= BLOCKS, "it did read its own blocks"
    theirs = {*references_below(store, [victim.root])}
    assert not theirs & {*store.names_in(mallory.volume.map, range(BLOCKS))}
    memory = mallory.attachment.wiring("mallory").ram
    told = mallory.rooms[0].run(["/usr/bin/sha256sum", str(memory)]).stdout.split()[0]
    assert told == hashlib.sha256(mallory.content).hexdigest()


def test_on_the_host_it_finds_that_block(tenants: tuple[Tenant, Tenant], store: Store) -> None:
    victim, mallory = tenants
    seen = mallory.seek(HOST, victim, [str(store.packs_path), str(mallory.folder)], False)
    assert any(path.endswith(".pack") for path in seen["found"])
