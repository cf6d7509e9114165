# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The blob of docs/formats/working-set.md, and what is not one."""

import random
import threading
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot
from overlay import Volume
from replica import Recorder, Run, WorkingSetInvalid, decode_working_set, encode_working_set
from satchel.ids import ZERO_REF
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires

RUNS = [Run("ram", 2, 1), Run("disk0", 5, 3), Run("ram", 65536, 1)]
GOLDEN = bytes.fromhex(
    "53415457 01 02 0000 05 6469736b30 03 72616d"
    "01 02000000 0100   00 05000000 0300   01 00000100 0100"
)
VOLUMES = {
    "ram": TableRoot(ref=ZERO_REF, size=256 << 20 | 1 << 12),
    "disk0": TableRoot(ref=ZERO_REF, size=8 << 12),
}


def test_golden_bytes() -> None:
    assert encode_working_set(RUNS) == GOLDEN
    assert decode_working_set(GOLDEN, VOLUMES) == RUNS


def test_nothing_was_touched() -> None:
    assert decode_working_set(encode_working_set([]), VOLUMES) == []


def test_as_many_runs_as_fit_are_kept() -> None:
    runs = [Run("ram", n, 1) for n in range(40000)]
    assert decode_working_set(encode_working_set(runs), VOLUMES) == runs[:32768]


def test_a_block_too_far_up_is_left_out() -> None:
    assert encode_working_set([Run("ram", 1 << 32, 1), *RUNS]) == GOLDEN


@pytest.mark.parametrize("size", range(1, len(GOLDEN)))
def test_cut_short(size: int) -> None:
    """It is refused, or ends after a run."""
    try:
        runs = decode_working_set(GOLDEN[:size], VOLUMES)
    except WorkingSetInvalid:
        return
    assert runs == RUNS[: len(runs)]


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"SATX" + GOLDEN[4:],
        GOLDEN[:4] + b"\x02" + GOLDEN[5:],
        GOLDEN[:5] + b"\xff" + GOLDEN[6:],
        GOLDEN + b"\x02" + bytes(6),
        GOLDEN + b"\x00" + (7).to_bytes(4, "little") + b"\x02\x00",
        GOLDEN.replace(b"disk0", b"disk1"),
        GOLDEN.replace(b"ram", b"r\xc3m"),
        GOLDEN + bytes(7) * 32768,
    ],
    ids=["empty", "magic", "version", "names", "index", "range", "name", "ascii", "long"],
)
def test_damage_is_refused(blob: bytes) -> None:
    with pytest.raises(WorkingSetInvalid):
        decode_working_set(blob, VOLUMES)


def test_random_damage_never_does_anything_else() -> None:
    choose = random.Random(1)
    for _ in range(5000):
        blob = bytearray(GOLDEN)
        for _ in range(choose.randrange(1, 4)):
            blob[choose.randrange(len(blob))] = choose.randrange(256)
        try:
            runs = decode_working_set(bytes(blob), VOLUMES)
        except WorkingSetInvalid:
            continue
        assert all(run.first + run.count <= VOLUMES[run.volume].blocks for run in runs)


def test_a_recorder_notes_and_asks(volume: Volume) -> None:
    asked: list[tuple[int, int]] = []
    recorder = Recorder(lambda volume, first, count: asked.append((first, count)))
    threads = [threading.Thread(target=recorder, args=(volume, n, 2)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder(volume, 0, 70000)
    assert sorted(asked[:20]) == [(n, 2) for n in range(20)]
    assert recorder.runs[20:] == [Run("ram", 0, 65535), Run("ram", 65535, 4465)]


@requires(*MACHINE)
def test_a_checkpoint_carries_what_its_rehearsal_touched(
    notes_checkpoint: NotesCheckpoint, tmp_path: Path
) -> None:
    manifest = notes_checkpoint.manifest
    assert manifest.working_set is not None
    with Store.open(notes_checkpoint.copy_store(tmp_path / "store")) as store:
        runs = decode_working_set(store.read(manifest.working_set), manifest.volumes)
    assert {run.volume for run in runs} == {"ram", "disk0"}
    blocks = {
        (run.volume, block) for run in runs for block in range(run.first, run.first + run.count)
    }
    assert 500 < len(blocks) < 20000
