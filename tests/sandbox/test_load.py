# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest that takes all that it gets from its host, in a cell, beside another replica."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cells import LOADS, begin_load
from chunkstore import Store
from replica import Replica
from sandbox import Cell, left
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.replica.machine import resumed
from tests.replica.notebook import notebook
from tests.waiting import eventually

pytestmark = [requires(*MACHINE), pytest.mark.machine]

TICKS = 50
"""Of processor time (1/100 s): that a load is under way, and not over at its start."""

WRITTEN = 8 << 20
PATIENCE = 300.0


@pytest.fixture
def store(notes_checkpoint: NotesCheckpoint, short_path: Path) -> Iterator[Store]:
    with Store.open(notes_checkpoint.copy_store(short_path / "store")) as opened:
        yield opened


def machine_pid(replica: Replica) -> int:
    return int((replica.run_dir / "qemu.pid").read_text())


def ticks(replica: Replica) -> int:
    """The processor time that its machine has had."""
    words = Path(f"/proc/{machine_pid(replica)}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def written(replica: Replica) -> int:
    """Bytes that it has written to its disk."""
    overlays = [path for path in replica.run_dir.glob("*.overlay") if path.name != "ram.overlay"]
    return sum(path.stat().st_blocks * 512 for path in overlays)


def anonymous_bytes(replica: Replica) -> int:
    """Memory of the machine's process that is no file's, as guest memory is."""
    lines = Path(f"/proc/{machine_pid(replica)}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("RssAnon:")]
    return int(line.split()[1]) << 10


def check_beside(
    notes: NotesCheckpoint, store: Store, folder: Path, load: str, operations: int
) -> None:
    """While one guest has that load, another replica answers as it does alone; and the first one's
    cell goes with it, whatever runs there."""
    with resumed(notes, store, folder / "alone") as alone:
        wanted = [alone.execute(notebook(n)).payload for n in range(1, operations + 1)]
    with resumed(notes, store, folder / "beside") as beside:
        with resumed(notes, store, folder / "hostile") as hostile:
            cell = left(hostile.run_dir)
            assert isinstance(cell, Cell)
            before = ticks(hostile)
            begin_load(hostile, LOADS[load])
            if load == "disk":
                assert eventually(lambda: written(hostile) > WRITTEN, PATIENCE)
            assert eventually(lambda: ticks(hostile) > before + TICKS, PATIENCE)
            given = [beside.execute(notebook(n)).payload for n in range(1, operations // 2 + 1)]
            during = ticks(hostile)
            assert eventually(lambda: ticks(hostile) > during + TICKS, PATIENCE)
            rest = range(operations // 2 + 1, operations + 1)
            given += [beside.execute(notebook(n)).payload for n in rest]
            assert anonymous_bytes(hostile) < (320 << 20)
            assert given == wanted
        assert not Path(f"/proc/{cell.pid}").exists()


def test_another_replica_answers_beside_a_guest_that_takes_every_processor(
    notes_checkpoint: NotesCheckpoint, store: Store, short_path: Path
) -> None:
    check_beside(notes_checkpoint, store, short_path, "processors", 6)


@pytest.mark.nightly
@pytest.mark.parametrize("load", ["memory", "disk", "fork bomb"])
def test_another_replica_answers_beside_a_guest_that_takes_all_that_it_gets(
    notes_checkpoint: NotesCheckpoint, store: Store, short_path: Path, load: str
) -> None:
    check_beside(notes_checkpoint, store, short_path, load, 40)
