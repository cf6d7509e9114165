# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A machine that wanders: checkpoint, resume elsewhere, operate, and so on, ten times over."""

from pathlib import Path

from chunkstore import Store
from replica import MachineSnapshot
from satchel.ids import CHUNK_REF_SIZE
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.replica.machine import check_file_system, resumed
from tests.replica.notebook import http, notebook
from volumes import Resolver, Volume

GENERATIONS = 10
OPERATIONS = 8
"""In each generation."""

BATCH = 4096 * CHUNK_REF_SIZE


def bring(there: Store, here: Store, refs: bytes) -> None:
    for start in range(0, len(refs), BATCH):
        here.admit(there.records(refs[start : start + BATCH]))


def lazy(there: Store, here: Store) -> Resolver:
    """As a surrogate has it: what is touched is fetched."""

    def resolve(volume: Volume, first: int, count: int) -> None:
        while missing := here.resolve(volume.root, volume.map, first, count):
            bring(there, here, missing)

    return resolve


@requires(*MACHINE)
def test_ten_generations_are_as_one(
    notes_checkpoint: NotesCheckpoint, short_path: Path, tmp_path: Path
) -> None:
    state = list(notes_checkpoint.manifest.contract.state)
    last = GENERATIONS * OPERATIONS
    there = Store.open(notes_checkpoint.copy_store(tmp_path / "store"))
    with resumed(notes_checkpoint, there, short_path / "c") as control:
        expected = [control.execute(notebook(number)).payload for number in range(1, last + 1)]
        expected.append(control.execute(http(last + 1, "GET", "/export")).payload)
        digest = control.digest(state)
        check_file_system(control)

    frozen: MachineSnapshot = notes_checkpoint.frozen
    seen: list[bytes] = []
    for generation in range(GENERATIONS):
        here = Store.create(tmp_path / f"store-{generation}")
        bring(there, here, there.reachable([frozen.device_state]))
        run_dir = short_path / f"{generation}"
        with resumed(notes_checkpoint, here, run_dir, frozen, lazy(there, here)) as replica:
            for _ in range(OPERATIONS):
                seen.append(replica.execute(notebook(len(seen) + 1)).payload)
            bring(there, here, there.reachable(frozen.volumes.values()))
            frozen = replica.checkpoint()
            if generation == GENERATIONS - 1:
                check_file_system(replica)  # what an earlier one had broken would be so still
                seen.append(replica.execute(http(last + 1, "GET", "/export")).payload)
                assert replica.digest(state) == digest
        assert frozen.operation == (generation + 1) * OPERATIONS
        there.close()
        there = here
    assert there.verify().ok
    there.close()
    assert seen == expected
