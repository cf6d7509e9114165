# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a resume reads first is laid in one piece by whoever has the medium, and nothing else."""

import dataclasses
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from chunkstore import Store
from images import Manifest
from media import Media, MediaCheckpoint, read_first, relocate
from satchel.errors import IntegrityError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE
from tests.images.test_manifest import manifest

BLOCKS = 2000
KILLS = 12

RELOCATES = """
import sys
from pathlib import Path
from media import Media, read_first, relocate
with Media.open(Path(sys.argv[1])) as media, read_first(media, Path(sys.argv[2])) as store:
    print("begins", flush=True)
    relocate(media, store)
"""


@dataclass(frozen=True)
class ScatteredMedium:
    """A medium with a checkpoint whose working set lies in several pieces, and what it is."""

    root: Path
    scratch: Path
    manifest: Manifest
    working_set: bytes

    def pieces(self) -> int:
        with Media.open(self.root) as media:
            return media.pieces(*self.manifest.first_roots()).pieces

    def check(self) -> int:
        """That every byte is there; the number of the newest generation."""
        with Media.open(self.root) as media, read_first(media, self.scratch) as store:
            newest = media.generations()[0]
            assert newest.whole
            assert media.missing(*self.manifest.roots()) == b""
            assert [c.id for c in media.checkpoints()] == [self.manifest.id]
            assert self.manifest.working_set is not None
            assert store.read(self.manifest.working_set) == self.working_set
            return newest.number

    def last_commit(self) -> int:
        """The highest number of a commit or of a torn one."""
        commits = (self.root / "satchel" / "commits").iterdir()
        return max(int(path.name.split(".")[0]) for path in commits)


@pytest.fixture
def carried(tmp_path: Path) -> ScatteredMedium:
    """Its chunks lie in an order of their own, as of a medium that was refreshed often."""
    root, scratch = tmp_path / "stick", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    content = random.Random(4)
    working_set = content.randbytes(BLOCKS * BLOCK_SIZE)
    with Store.create(tmp_path / "home") as store, Media.init(root) as media:
        made = dataclasses.replace(
            manifest(),
            working_set=store.import_bytes(working_set),
            device_state=store.import_bytes(content.randbytes(9 * BLOCK_SIZE)),
            machine={**manifest().machine, "memory_mib": 16},
            volumes={
                "ram": store.import_bytes(content.randbytes(1 << 20) + bytes(15 << 20)),
                "disk0": store.import_bytes(working_set[: 50 * BLOCK_SIZE]),
            },
        )
        refs = store.reachable(made.roots())
        chunks = [refs[n : n + CHUNK_REF_SIZE] for n in range(0, len(refs), CHUNK_REF_SIZE)]
        content.shuffle(chunks)
        media.add(store, b"".join(chunks))
        media.put_checkpoint(made.service, made.id, made.to_bytes(), b"signed")
        media.commit([MediaCheckpoint(made.service, made.id, (), whole=True)], made.roots())
    return ScatteredMedium(root, scratch, made, working_set)


def test_it_is_laid_in_one_piece_without_home(carried: ScatteredMedium) -> None:
    assert carried.pieces() > BLOCKS / 2
    with Media.open(carried.root) as media, read_first(media, carried.scratch) as store:
        done = relocate(media, store)
    assert done.before["notes"] > BLOCKS / 2
    assert done.after == {"notes": 1}
    assert (done.generation, carried.check(), carried.pieces()) == (2, 2, 1)
    assert done.media_bytes > len(carried.working_set)
    assert list(carried.scratch.iterdir()) == []


def test_a_checkpoint_whose_beginning_is_damaged_stays_as_it_is(carried: ScatteredMedium) -> None:
    for pack in (carried.root / "satchel" / "packs").glob("*.pack"):
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.write_bytes(data)
    before = carried.pieces()
    with Media.open(carried.root) as media, read_first(media, carried.scratch) as store:
        done = relocate(media, store)
    assert done.before == {}
    assert done.media_bytes == 0
    assert carried.pieces() == before
    with Media.open(carried.root) as media:
        assert [c.id for c in media.checkpoints()] == [carried.manifest.id]


def test_a_manifest_that_is_damaged_is_no_reason_to_forget_its_checkpoint(
    carried: ScatteredMedium,
) -> None:
    (path,) = (carried.root / "satchel" / "checkpoints").glob("*.json")
    path.write_bytes(path.read_bytes().replace(b'"operation":30', b'"operation":31'))
    with (
        Media.open(carried.root) as media,
        Store.create(carried.scratch / "any") as store,
        pytest.raises(IntegrityError),
    ):
        relocate(media, store)
    with Media.open(carried.root) as media:
        assert [g.number for g in media.generations()] == [1]


def relocating(carried: ScatteredMedium) -> subprocess.Popen[str]:
    """Another process that has read what is to be moved, and begins to move it."""
    argv: list[str | Path] = [sys.executable, "-c", RELOCATES, carried.root, carried.scratch]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


def test_killed_at_any_moment_it_leaves_the_old_or_the_new_generation(
    carried: ScatteredMedium,
) -> None:
    with relocating(carried) as process:
        began = time.monotonic()
    assert process.returncode == 0
    took, killed = time.monotonic() - began, 0
    newest = carried.check()
    for moment in range(KILLS):
        taken = carried.last_commit()
        with relocating(carried) as process:
            time.sleep(took * moment / KILLS)
            process.kill()
        killed += process.returncode != 0
        found = carried.check()
        assert found in (newest, taken + 1)
        newest = found
    assert killed > 0
    taken = carried.last_commit()
    with relocating(carried):
        pass
    assert (carried.check(), carried.pieces()) == (taken + 1, 1)
