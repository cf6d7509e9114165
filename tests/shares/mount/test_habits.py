# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What `predicted` has learnt at a mount outlives the mount."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from homeserver.shares import Shares, ShareShelf
from shares.home import ShareRecord
from shares.mount.habits import HabitsInvalid, decode, encode, load_habits
from shares.protocol import Answers, FileId, Tables
from tests.needs import requires
from tests.shares.node.mounted import SHARE, MountProcess

GOLDEN = (
    b'{"version":1,"home":"h","share":"photos",'
    b'"answers":[[["block",7,0,2],3.0,1.0],[["history",7,0,2,[true,false]],1.0,0.0]],'
    b'"groups":[[7,-1,[0,1]]],"before":[[7,0,[true,false]]]}'
)


def made() -> Tables:
    tables = Tables()
    tables.answers["block", 7, 0, 2] = Answers(3.0, 1.0)
    tables.answers["history", 7, 0, 2, (True, False)] = Answers(1.0, 0.0)
    tables.groups[FileId(7), -1] = (0, 1)
    tables.before[FileId(7), 0] = (True, False)
    return tables


def test_the_bytes_are_those_of_the_page() -> None:
    assert encode("h", "photos", made()) == GOLDEN
    assert decode(GOLDEN, "h", "photos") == made()


def test_habits_of_another_share_are_not_taken() -> None:
    for home, share in (("h", "music"), ("other", "photos")):
        with pytest.raises(HabitsInvalid):
            decode(GOLDEN, home, share)


def test_another_version_is_refused() -> None:
    with pytest.raises(HabitsInvalid):
        decode(GOLDEN.replace(b'"version":1', b'"version":2'), "h", "photos")


def test_damage_is_refused_or_makes_other_habits_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "habits"
    for place in range(len(GOLDEN)):
        for byte in (0, 0xFF, GOLDEN[place] ^ 1):
            path.write_bytes(GOLDEN[:place] + bytes([byte]) + GOLDEN[place + 1 :])
            tables = load_habits(path, "h", "photos")
            assert len(tables.answers) <= 2
    for end in range(len(GOLDEN)):
        with pytest.raises(HabitsInvalid):
            decode(GOLDEN[:end], "h", "photos")


@pytest.mark.parametrize(
    "part",
    ['"answers":[[["a"],-1,2]]', '"answers":[[["a"],NaN,2]]', '"answers":[["a",1,1]]',
     '"answers":[[[{}],1,1]]', '"groups":[["7",0,[1]]]', '"groups":[[7,0,5]]'],
)  # fmt: skip
def test_what_nobody_learns_is_refused(part: str) -> None:
    name = part.partition(":")[0]
    whole = json.loads("{" + part + "}")
    found = json.loads(GOLDEN) | whole
    with pytest.raises(HabitsInvalid):
        decode(json.dumps(found).encode(), "h", "photos")
    assert name.strip('"') in found


def test_tables_are_bounded() -> None:
    tables = Tables()
    for number in range(70_000):
        tables.answers["all", number] = Answers(1.0)
        tables.before[FileId(1), number] = (True,)
    assert (len(tables.answers), len(tables.before)) == (65_536, 16_384)
    assert len(decode(encode("h", "s", tables), "h", "s").answers) == 16_384


@requires("fuse")
def test_a_mount_goes_by_what_the_last_one_there_has_learnt(short_path: Path) -> None:
    root = short_path / "root"
    root.mkdir()
    (root / "a").write_bytes(b"0")
    shares = Shares(ShareShelf(short_path / "shelf"), short_path / "home", 3.0)
    with contextlib.closing(shares):
        shares.add(ShareRecord(SHARE, str(root), policy="predicted"))
        found = [_use(short_path, times) for times in (4, 1)]
    learnt = [{json.dumps(context) for context, *_ in each["answers"]} for each in found]
    assert learnt[0]
    assert learnt[0] <= learnt[1]


def _use(folder: Path, times: int) -> dict[str, list[list[object]]]:
    """A writer and a reader of one file; what is saved of the writer."""
    places = [folder / name for name in ("writer", "reader")]
    states = [folder / f"state-{place.name}" for place in places]
    writer, reader = map(MountProcess, [folder / "home"] * 2, places, states)
    try:
        one, other = (place / "a" for place in places)
        with one.open("r+b", buffering=0) as written, other.open("rb", buffering=0) as read:
            for number in range(times):
                written.seek(0)
                written.write(b"%d" % number)
                read.seek(0)
                assert read.read() == b"%d" % number
    finally:
        for mounted in (reader, writer):
            mounted.close()
    (saved,) = states[0].glob("*.habits")
    return json.loads(saved.read_bytes())  # type: ignore[no-any-return]
