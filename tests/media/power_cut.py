# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Power cuts of a medium on a real file system. Needs root, device mapper, and that file system.

    python -m tests.media.power_cut vfat 200

A life of a medium is played once on a device whose writes dm-log-writes records with their
flushes: generations that come and go, and a journal whose operations are acknowledged in between.
Then the device is made anew as it was at some flush, with whatever of the writes up to the next
one: a random part of them, in any order, torn at any sector. Each time it is mounted without a
check, as a person would plug it in, and has to hold everything that was acknowledged before that
flush: the generation or a later one, whole to the last byte, and every operation (but see
`plugged_in`). Now and then the next writer goes on from there; where the file system refuses that
because it has noticed the cut, it is checked first.

Clusters are as small as vfat has them, so that folders and files get new ones all the time.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chunkstore import MediaDamaged, MediaNotFound, Store, TableRoot
from media import Media, MediaCheckpoint
from replay import Log, LogGone, Operation
from satchel.errors import SatchelError
from satchel.ids import OperationNumber
from tests.chunkstore.content import commit_volumes, noise, read_volumes, text

FOLDER = Path("/dev/shm/power-cut")
SIZE = 40 << 20
SECTOR = 512
GENERATIONS = 6
OPERATIONS = 4
"""Between two generations."""

MAKE = {
    "vfat": ["mkfs.vfat", "-F", "32", "-s", "1"],
    "exfat": ["mkfs.exfat", "-c", "4096"],
}
CHECK = {"vfat": ["fsck.vfat", "-a", "-w"], "exfat": ["fsck.exfat", "-y"]}

FLUSH, DISCARD, MARK = 1, 4, 8
LOG_MAGIC = 0x6A736677736872


@dataclass
class Group:
    """What is written between two flushes; `marks` are acknowledgements that came before: nothing
    is acknowledged but by a flush. A write with FUA is taken for one that may be lost, too."""

    writes: list[tuple[int, bytes]] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)


def run(*argv: str | Path) -> str:
    path = "/usr/sbin:/sbin:/usr/bin:/bin"
    done = subprocess.run(
        [str(a) for a in argv],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "DM_DISABLE_UDEV": "1"},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout.strip()


@contextmanager
def loop(image: Path) -> Iterator[str]:
    device = run("losetup", "--find", "--show", image)
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


@contextmanager
def mounted(kind: str, device: str) -> Iterator[Path]:
    root = FOLDER / "mnt"
    root.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", kind, device, root)
    try:
        yield root
    finally:
        run("umount", root)


def content(number: int) -> dict[str, bytes]:
    """The volumes of a generation: they have some in common with the one before."""
    return {
        "notes": noise(0, 60) + noise(number, 40 + 10 * (number % 3)),
        "speech": noise(100 + number // 2, 50) + text(number, 30),
    }


def roots(store: Store, number: int) -> dict[str, TableRoot]:
    return {name: store.import_bytes(data) for name, data in content(number).items()}


def operation(number: int) -> Operation:
    return Operation(OperationNumber(number), number, 0, b"operation %d " % number * 20)


def live(kind: str, base: Path) -> list[Group]:
    """Play the life; what was written to the device, group by group."""
    log = FOLDER / "log"
    with log.open("wb") as file:
        file.truncate(256 << 20)
    image = FOLDER / "live"
    image.write_bytes(base.read_bytes())
    with loop(image) as device, loop(log) as record:
        sectors = SIZE // SECTOR
        run(
            "dmsetup", "create", "power-cut", "--table", f"0 {sectors} log-writes {device} {record}"
        )
        try:
            with mounted(kind, "/dev/mapper/power-cut") as root:
                play(root)
            mark("end")
        finally:
            run("dmsetup", "remove", "power-cut")
    return list(groups(log))


def mark(word: str) -> None:
    run("dmsetup", "message", "power-cut", "0", "mark", word)


def play(root: Path) -> None:
    with Store.create(FOLDER / "store") as store:
        Media.init(root).close()
        mark("medium-0")
        written = 0
        for number in range(1, GENERATIONS + 1):
            with Media.open(root) as media:
                commit_volumes(store, media, roots(store, number), number)
            mark(f"generation-{number}")
            with Log.open(root / "satchel" / "log" / "notes") as log:
                log.cut(OperationNumber(max(0, written - OPERATIONS)))
                for _ in range(OPERATIONS):
                    written += 1
                    log.append(operation(written))
                    mark(f"operation-{written}")


def groups(log: Path) -> Iterator[Group]:
    """drivers/md/dm-log-writes.c: a super block, then entries, each followed by its data."""
    data = log.read_bytes()
    magic, version, entries, size = struct.unpack_from("<QQQI", data)
    assert (magic, version, size) == (LOG_MAGIC, 1, SECTOR), (magic, version, size)
    at = SECTOR
    group = Group()
    for _ in range(entries):
        sector, count, flags, length = struct.unpack_from("<QQQQ", data, at)
        inline = data[at + 32 : at + 32 + length]
        at += SECTOR
        if flags & MARK:
            group.marks.append(inline.rstrip(b"\0").decode())
            continue
        if flags & FLUSH:
            yield group
            group = Group()
        if count and not flags & DISCARD:
            group.writes.append((sector * SECTOR, data[at : at + count * SECTOR]))
            at += count * SECTOR
    yield group


def cut(image: bytearray, group: Group, dice: random.Random) -> bytearray:
    """The device when the power went within that group."""
    left = bytearray(image)
    kind = dice.randrange(4)
    writes = list(group.writes)
    if kind == 0:
        writes = writes[: dice.randrange(len(writes) + 1)]
    elif kind == 1:
        writes = [one for one in writes if dice.random() < 0.5]
    elif kind == 2:
        dice.shuffle(writes)
        writes = writes[: dice.randrange(len(writes) + 1)]
    for offset, data in writes:
        for at in range(0, len(data), SECTOR):
            if kind < 3 or dice.random() < 0.5:
                left[offset + at : offset + at + SECTOR] = data[at : at + SECTOR]
    return left


@dataclass
class Promised:
    """What was acknowledged before a cut."""

    medium: bool = False
    generation: int = 0
    operation: int = 0

    def take(self, marks: list[str]) -> None:
        for said in marks:
            what, _, number = said.partition("-")
            if what == "medium":
                self.medium = True
            elif what in ("generation", "operation"):
                setattr(self, what, int(number))


def inspect(root: Path, promised: Promised) -> int:
    """The generation that opens. AssertionError for a broken promise."""
    try:
        media = Media.open(root)
    except SatchelError:
        assert not promised.medium, "the medium is lost"
        return 0
    with media:
        whole = [g.number for g in media.generations() if g.whole]
        opened = whole[0] if whole else 0
        lacking = [(g.number, g.lacks) for g in media.generations()]
        assert opened >= promised.generation, f"{promised} is lost: {lacking}"
        # Those before it count as well: they are what a damaged one falls back to.
        assert len(whole) >= min(2, opened), f"only {whole} are whole"
        if opened:
            with Store.open(FOLDER / "scratch") as scratch:
                assert read_volumes(media, scratch) == content(opened), "a volume is WRONG"
            report = media.verify()
            assert not [c for c in media.checkpoints() if c.whole and lacks(media, c)], report
    if promised.operation:
        path = root / "satchel" / "log" / "notes"
        with Log.open(path, read_only=True) as log:
            assert log.last >= promised.operation, f"operation {promised.operation} is lost"
            for one in log.read(OperationNumber(log.first - 1)):
                assert one == operation(one.number), "an operation is WRONG"
    return opened


def plugged_in(kind: str, device: str, promised: Promised, counts: dict[str, int]) -> int:
    """As `inspect`; where a promise does not hold, once more after a check of the file system.

    What vfat grows in place is unreadable as a whole when the power goes between its two sectors of
    the FAT: a journal that gets another cluster, and a folder that does. A check gives both back.
    How often that was needed is counted, apart for each: it is a weakness, not a success.
    """
    try:
        with mounted(kind, device) as root:
            return inspect(root, promised)
    except LogGone:
        counts["journal_checked"] += 1
    except (AssertionError, SatchelError) as error:
        print(f"before a check: {error}")
        counts["medium_checked"] += 1
    subprocess.run([*CHECK[kind], device], capture_output=True, check=False)
    with mounted(kind, device) as root:
        return inspect(root, promised)


def lacks(media: Media, checkpoint: MediaCheckpoint) -> bool:
    root = TableRoot.from_json(json.loads(media.signed(checkpoint)[0]))
    return bool(media.missing(root))


def writable(root: Path) -> Media:
    """The medium, made if it was cut off while it was made."""
    try:
        return Media.open(root)
    except (MediaNotFound, MediaDamaged):
        return Media.init(root)


def go_on(kind: str, device: str, opened: int) -> bool:
    """The next writer makes a generation; whether the file system had to be checked first."""
    for checked in (False, True):
        try:
            with (
                mounted(kind, device) as root,
                Store.open(FOLDER / "store") as store,
                writable(root) as media,
            ):
                commit_volumes(store, media, roots(store, 9), 9)
                assert media.generations()[0].whole
            return checked
        except SatchelError as error:
            assert not checked, f"after a check: {error}"
            subprocess.run([*CHECK[kind], device], capture_output=True, check=False)
            with mounted(kind, device) as root:
                inspect(root, Promised(opened > 0, opened))
    raise AssertionError


def main(kind: str, cuts: int, seed: int) -> None:
    FOLDER.mkdir()
    base = FOLDER / "base"
    with base.open("wb") as file:
        file.truncate(SIZE)
    run(*MAKE[kind], base)
    Store.create(FOLDER / "scratch").close()
    recorded = live(kind, base)
    dice = random.Random(seed)
    counts: dict[str, int] = {"groups": len(recorded), "cuts": 0, "went_on": 0, "checked": 0}
    counts |= {"journal_checked": 0, "medium_checked": 0}
    opened_at: dict[int, int] = {}
    chosen = sorted(dice.choices(range(len(recorded)), k=cuts))
    image, promised, at = bytearray(base.read_bytes()), Promised(), 0
    path = FOLDER / "cut"
    for index in chosen:
        while at < index:
            for offset, data in recorded[at].writes:
                image[offset : offset + len(data)] = data
            at += 1
            promised.take(recorded[at].marks)
        path.write_bytes(cut(image, recorded[index], dice))
        counts["cuts"] += 1
        try:
            with loop(path) as device:
                opened = plugged_in(kind, device, promised, counts)
                opened_at[opened] = opened_at.get(opened, 0) + 1
                if dice.random() < 0.3:
                    counts["went_on"] += 1
                    counts["checked"] += go_on(kind, device, opened)
        except BaseException:
            print(f"cut {counts['cuts']} of seed {seed}, in group {index} of {len(recorded)}")
            raise
    print(json.dumps({"kind": kind, **counts, "opened": opened_at}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
