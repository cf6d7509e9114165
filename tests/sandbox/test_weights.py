# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two cells want one processor: each gets it by its weight."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.folder import RunFolder
from sandbox import EVERYBODY, Cell, CellMounts, Cells, left
from satchel.process import Process
from tests.waiting import eventually

LOOP = "while :; do :; done"
TURNS = 200
"""Of a hundredth of a second, which both get together before they are compared."""


@pytest.fixture
def cells(short_path: Path) -> Iterator[list[tuple[Path, Cell]]]:
    folders, made = [RunFolder(short_path / name) for name in ("a", "b")], []
    for folder in folders:
        room = Cells().room(CellMounts(folder.path), memory=1 << 20, processors=1, kvm=False)
        assert isinstance(room, Cell)
        made.append((folder.path, room))
    yield made
    for _, room in made:
        room.end()
    for folder in folders:
        folder.remove()


def turns(process: Process) -> int:
    """Hundredths of a second of a processor that it had."""
    return sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]))


def test_a_cell_in_the_background_gets_what_is_left(cells: list[tuple[Path, Cell]]) -> None:
    for _, room in cells:
        if "cpu" not in room.groups.controllers:
            pytest.skip("control groups of processors cannot be made here")
    (processor, *_) = os.sched_getaffinity(0)
    loops = []
    for folder, room in cells:
        loop = room.start(["/bin/sh", "-c", LOOP], folder / "log", machine=True)
        os.sched_setaffinity(loop.pid, {processor})
        loops.append(loop)
    for ahead, behind in ((0, 1), (1, 0)):
        cells[ahead][1].weigh(EVERYBODY)
        left(cells[behind][0]).weigh(EVERYBODY // 10)
        before = [turns(loop) for loop in loops]

        def both(before: list[int] = before) -> bool:
            return sum(turns(loop) for loop in loops) - sum(before) > TURNS

        assert eventually(both, seconds=120)
        got = [turns(loop) - begun for loop, begun in zip(loops, before, strict=True)]
        assert got[ahead] > 4 * got[behind]


def test_a_folder_without_a_cell_has_no_weight(tmp_path: Path) -> None:
    left(tmp_path).weigh(EVERYBODY)
    assert not [*tmp_path.iterdir()]
