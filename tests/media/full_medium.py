# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium that runs full, on a real file system. Needs root, and that file system.

    python -m tests.media.full_medium vfat

Two generations fit, three do not. Whatever does not fit, and whenever that is noticed, the newest
generation stays whole to the last byte, and the file system without a fault.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path

from chunkstore import MediaFull, Store, TableRoot
from media import Media
from satchel.progress import silent
from tests.chunkstore.content import commit_volumes, noise, read_volumes
from tests.media.power_cut import MAKE, loop, mounted, run

FOLDER = Path("/dev/shm/full-medium")
SIZE = 40 << 20
BLOCKS = 3600
"""Of a generation: 15 MB, and none of its blocks is in another one."""

CLEAN = {"vfat": ["fsck.vfat", "-n"], "exfat": ["fsck.exfat", "-n"]}


def content(number: int) -> bytes:
    return noise(number, BLOCKS)


def files(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def fill(root: Path) -> Path:
    """Somebody else takes all that is free, to the last cluster: a commit needs no more."""
    path = root / "filler"
    for size in (1 << 16, 512):
        with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(size)):
                pass
    return path


def fails(root: Path, store: Store, number: int, *, when: str) -> None:
    """A generation that finds no room: before it is begun, in the middle of its packs, or when all
    chunks are there and only the commit is not."""
    volume = store.import_bytes(noise(number, 3 * BLOCKS) if when == "before" else content(number))
    before = files(root)

    def fill_then(done: int, total: int) -> None:
        fill(root)

    with Media.open(root) as media:
        try:
            media.add(store, store.reachable([volume]), fill_then if when == "middle" else silent)
            if when == "commit":
                fill(root)
            media.commit([], [volume])
        except MediaFull as error:
            print(f"{when}: {error}")
        else:
            raise AssertionError(f"there was room for it {when}")
    if when == "before":
        assert files(root) == before, "something was written all the same"


def holds(root: Path, numbers: list[int]) -> None:
    """The medium opens, with these generations, and the newest is there to the last byte."""
    with Media.open(root) as media, Store.create(FOLDER / "scratch") as scratch:
        found = [(generation.number, generation.whole) for generation in media.generations()]
        assert found == [(number, True) for number in numbers], found
        assert read_volumes(media, scratch) == {"notes": content(numbers[0])}, "it is WRONG"
        assert not media.verify().bad
    shutil.rmtree(FOLDER / "scratch")


def play(root: Path, store: Store) -> None:
    Media.init(root).close()

    def generation(number: int) -> TableRoot:
        volume = store.import_bytes(content(number))
        with Media.open(root) as media:
            commit_volumes(store, media, {"notes": volume}, number)
        return volume

    generation(1)
    generation(2)
    holds(root, [2, 1])
    fails(root, store, 9, when="before")
    holds(root, [2, 1])
    generation(3)  # the first has to make room for it
    holds(root, [3, 2])
    fails(root, store, 4, when="middle")
    holds(root, [3])
    (root / "filler").unlink()
    generation(4)
    holds(root, [4, 3])
    fails(root, store, 5, when="commit")
    (root / "filler").unlink()
    holds(root, [4])
    generation(5)
    holds(root, [5, 4])


def main(kind: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    image = FOLDER / "image"
    with image.open("wb") as file:
        file.truncate(SIZE)
    run(*MAKE[kind], image)
    with loop(image) as device:
        with mounted(kind, device) as root, Store.create(FOLDER / "store") as store:
            play(root, store)
        run(*CLEAN[kind], device)
        with mounted(kind, device) as root:
            holds(root, [5, 4])
    shutil.rmtree(FOLDER / "store")
    print(json.dumps({"kind": kind, "generations": 5, "full": ["before", "middle", "commit"]}))


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        main(kind)
