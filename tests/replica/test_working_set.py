# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The blob of docs/formats/working-set.md, and what is not one."""

import random
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot
from replica import (
    HASTY_PRESET,
    Frame,
    Run,
    WorkingSetInvalid,
    WorkingSetVersion,
    decode_working_set,
    directory_size,
    encode_working_set,
    names_extent,
)
from satchel.ids import BLOCK_SIZE, ZERO_REF
from tests.chunkstore.content import reference
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires

RUNS = [Run("ram", 2, 1), Run("disk0", 5, 3), Run("ram", 65536, 1), Run("ram", 2, 1)]
DIRECTORY = bytes.fromhex(
    "53415457 03 02 0000 35000000 01000000 05 6469736b30 03 72616d"
    "64000000 0300   00 05000000 0300   01 02000000 0100   01 00000100 0100"
)
NAMELESS = DIRECTORY[:4] + b"\x02" + DIRECTORY[5:]
NAMES = bytes.fromhex(
    "5aaf13fc7cf54ed388775c39526150e4acfe4bd5"
    "a20d1581e58efa5f1b63db65a6e65f92fb8679d7c094e85a553f6201b72ecc0b"
    "027168ce5aa27706740d6fc2a33f40c48ab7b35a"
    "8adf9d335f46a78582311dc3804be98cab489a126c6e7287c11bb1c228c9bdbf"
    "d51479594a3005aa58317d54de560d755fceda09"
    "d8f59c6d111d448da76391d7ffaf7969cced5ad1cdfa927aa58bd4e235571cab"
    "153e7dfd685294d0b20645643234e401bdc58216"
    "1c1533748e3e79e022b30633fdc2c1d9334b1e966ed63e5d4181133cd961698d"
    "8c61b92132092cc69a9bfa2fe35c7c951a50a7e3"
    "87f862dee431b7e3bdfc464b440dce576c53b00a62e1be9b6da58a61ba143843"
)
CONTENT = bytes.fromhex(
    "e04fff005c5d00321a4acd60fcf1949e6232631f746acfdc83594667b7246cf2"
    "2440e94107db2d75c24c49eb09001c60c89bbb529f9e87ad19457f45dac06bf0"
    "920fb78400b50361ecc57cb4b0f248d360e882cbbaf02c7323ae652e207539f6"
    "df120000"
)
VOLUMES = {
    "ram": TableRoot(ref=ZERO_REF, size=256 << 20 | 1 << 12),
    "disk0": TableRoot(ref=ZERO_REF, size=8 << 12),
}
GOLDEN = {
    WorkingSetVersion.NAMELESS: NAMELESS.ljust(BLOCK_SIZE, b"\0") + CONTENT,
    WorkingSetVersion.NAMED: b"".join(p.ljust(BLOCK_SIZE, b"\0") for p in (DIRECTORY, NAMES))
    + CONTENT,
}
SIZES = {version: len(blob) for version, blob in GOLDEN.items()}


def content(run: Run) -> bytes:
    """Each block's own number, and its volume."""
    return b"".join(f"{name} {n} ".encode().ljust(BLOCK_SIZE, b".") for name, n in run.blocks())


def frames_of(blob: bytes, volumes: Mapping[str, TableRoot] | None = None) -> list[Frame]:
    directory = blob[: directory_size(blob)]
    return decode_working_set(directory, len(blob), volumes or VOLUMES)


def blocks_of(blob: bytes) -> dict[tuple[str, int], bytes]:
    """Every block with its content, as a reader finds it."""
    found = {}
    for frame in frames_of(blob):
        data = frame.expand(blob[frame.offset : frame.offset + frame.length])
        numbers = [block for run in frame.runs for block in run.blocks()]
        for place, block in enumerate(numbers):
            found[block] = data[place * BLOCK_SIZE :][:BLOCK_SIZE]
    return found


def names_in(
    blob: bytes, volumes: Mapping[str, TableRoot] | None = None
) -> dict[tuple[str, int], bytes]:
    """The name of every block, as a reader finds it."""
    frames = frames_of(blob, volumes)
    offset, length = names_extent(frames)
    found = {}
    rest = blob[offset : offset + length]
    for frame in frames:
        numbers = [block for run in frame.runs for block in run.blocks()]
        names, rest = rest[: 52 * len(numbers)], rest[52 * len(numbers) :]
        assert len(names) == 52 * len(numbers)
        found.update({block: names[52 * n :][:52] for n, block in enumerate(numbers)})
    assert not rest
    return found


def directory(*frames: tuple[int, list[tuple[int, int, int]]], count: int | None = None) -> bytes:
    """A directory of the volumes disk0 and ram: for each frame its length and its runs."""
    entries = b"".join(
        struct.pack("<IH", length, len(runs)) + b"".join(struct.pack("<BIH", *run) for run in runs)
        for length, runs in frames
    )
    names = b"\5disk0\3ram"
    head = (3, 2, 0, 16 + len(names) + len(entries), len(frames) if count is None else count)
    return struct.pack("<4sBBHII", b"SATW", *head) + names + entries


def test_golden_bytes() -> None:
    blob = encode_working_set([RUNS], content)
    assert blob[: 2 * BLOCK_SIZE] == GOLDEN[WorkingSetVersion.NAMED][: 2 * BLOCK_SIZE]
    assert len(blob) == 3 * BLOCK_SIZE
    assert frames_of(blob) == [Frame(8192, 100, (RUNS[1], RUNS[0], RUNS[2]), 4096)]


def test_golden_bytes_without_names() -> None:
    blob = encode_working_set([RUNS], content, version=WorkingSetVersion.NAMELESS)
    assert blob[:BLOCK_SIZE] == GOLDEN[WorkingSetVersion.NAMELESS][:BLOCK_SIZE]
    assert len(blob) == 2 * BLOCK_SIZE
    assert frames_of(blob) == [Frame(4096, 100, (RUNS[1], RUNS[0], RUNS[2]))]


@pytest.mark.parametrize("version", WorkingSetVersion)
def test_golden_bytes_of_either_version_are_read(version: WorkingSetVersion) -> None:
    found = blocks_of(GOLDEN[version])
    assert found == {b: content(Run(*b, 1)) for run in RUNS for b in run.blocks()}


def test_each_block_has_its_name_and_a_zero_one_has_zeros() -> None:
    def sparse(run: Run) -> bytes:
        return b"".join(content(Run(*b, 1)) if b[1] % 3 else bytes(4096) for b in run.blocks())

    runs = [Run("ram", 0, 700), Run("disk0", 0, 8), Run("ram", 9000, 90)]
    names = names_in(encode_working_set([runs], sparse))
    blocks = [block for run in runs for block in run.blocks()]
    assert names == {b: reference(content(Run(*b, 1))) if b[1] % 3 else bytes(52) for b in blocks}


def test_an_old_blob_has_no_names() -> None:
    assert names_extent(frames_of(GOLDEN[WorkingSetVersion.NAMELESS])) == (0, 0)


def test_what_was_compressed_in_haste_is_read_like_any_other() -> None:
    hasty = encode_working_set([RUNS], content, preset=HASTY_PRESET)
    assert hasty != encode_working_set([RUNS], content)
    assert blocks_of(hasty) == {b: content(Run(*b, 1)) for run in RUNS for b in run.blocks()}


def test_nothing_was_touched() -> None:
    assert frames_of(encode_working_set([], content)) == []


def test_every_block_touched_is_there_once_with_its_content() -> None:
    choose = random.Random(2)
    runs = [Run("ram", choose.randrange(60000), choose.randrange(1, 9)) for _ in range(1500)]
    blob = encode_working_set([runs], content)
    touched = {block for run in runs for block in run.blocks()}
    found = blocks_of(blob)
    assert found == {block: content(Run(*block, 1)) for block in touched}
    frames = frames_of(blob)
    assert sum(frame.count for frame in frames) == len(touched)
    assert all(frame.offset % BLOCK_SIZE == 0 for frame in frames)


def test_what_is_touched_first_comes_first() -> None:
    early = [Run("ram", 256 * n, 1) for n in range(200, 0, -1)]
    late = [Run("ram", 256 * n + 7, 90) for n in range(100, 0, -1)]
    frames = frames_of(encode_working_set([early, late], content))
    first = {block for frame in frames[:4] for run in frame.runs for block in run.blocks()}
    assert first >= {block for run in early for block in run.blocks()}
    assert not any(run in early for frame in frames[4:] for run in frame.runs)
    assert frames[-1].runs[0].first < 256 * 6


def test_a_block_is_in_the_first_part_that_has_it() -> None:
    parts = [[Run("ram", 0, 9)], [Run("ram", 4, 20)], [Run("ram", 0, 24)]]
    frames = frames_of(encode_working_set(parts, content))
    assert [frame.runs for frame in frames] == [(Run("ram", 0, 9),), (Run("ram", 9, 15),)]


def test_another_order_of_touch_gives_the_same_frames() -> None:
    runs = [Run("disk0", 1, 2), *(Run("ram", 2000 + 300 * n, 80) for n in range(30))]
    frames = [f.runs for f in frames_of(encode_working_set([runs], content))]
    again = [f.runs for f in frames_of(encode_working_set([runs[::-1]], content))]
    assert frames != again
    assert sorted(frames, key=repr) == sorted(again, key=repr)


def test_as_many_blocks_as_fit_are_kept() -> None:
    volumes = {"ram": TableRoot(ref=ZERO_REF, size=1 << 30)}
    blob = encode_working_set([[Run("ram", 0, 70000)]], lambda run: bytes(run.count * BLOCK_SIZE))
    assert sum(frame.count for frame in frames_of(blob, volumes)) == 65536


def test_a_block_too_far_up_is_left_out() -> None:
    whole = encode_working_set([RUNS], content)
    assert encode_working_set([[Run("ram", 1 << 32, 1), *RUNS]], content) == whole


@pytest.mark.parametrize("version", WorkingSetVersion)
@pytest.mark.parametrize("size", range(len(DIRECTORY)))
def test_cut_short(size: int, version: WorkingSetVersion) -> None:
    cut = GOLDEN[version][:size]
    with pytest.raises(WorkingSetInvalid):
        directory_size(cut)
        decode_working_set(cut, SIZES[version], VOLUMES)


@pytest.mark.parametrize("version", WorkingSetVersion)
def test_a_blob_without_the_end_of_a_frame_or_of_the_names_is_refused(
    version: WorkingSetVersion,
) -> None:
    blob = GOLDEN[version]
    head = blob[: len(DIRECTORY)]
    assert decode_working_set(head, len(blob), VOLUMES)
    for size in (len(blob) - 1, len(blob) - 100, BLOCK_SIZE + len(NAMES) - 1, len(DIRECTORY)):
        if size < len(blob):
            with pytest.raises(WorkingSetInvalid):
                decode_working_set(head, size, VOLUMES)


@pytest.mark.parametrize(
    "damaged",
    [
        b"SATX" + DIRECTORY[4:],
        DIRECTORY[:4] + b"\x01" + DIRECTORY[5:],
        DIRECTORY[:5] + b"\xff" + DIRECTORY[6:],
        DIRECTORY[:6] + b"\x01" + DIRECTORY[7:],
        DIRECTORY + b"\x02" + bytes(6),
        DIRECTORY.replace(b"disk0", b"disk1"),
        DIRECTORY.replace(b"ram", b"r\xc3m"),
        directory((53, [(2, 0, 1)])),
        directory((53, [(0, 7, 2)])),
        directory((53, [(1, 2**32 - 1, 65535)])),
        directory((53, [(1, 0, 257)])),
        directory((53, [(1, 0, 200), (1, 200, 57)])),
        directory((53, [])),
        directory((53, [(1, 0, 0)])),
        directory((4097, [(1, 0, 1)])),
        directory((1, [(1, 0, 200)]), (4096, [(1, 200, 200)])),
        directory((2**32 - 1, [(1, 0, 1)])),
        directory((53, [(1, 0, 1)]), count=2**32 - 1),
        directory((53, [(1, 0, 1)]), (53, [(1, 0, 1)]), count=1),
        directory(*[(1, [(1, 0, 256)])] * 257),
    ],
)
def test_damage_is_refused(damaged: bytes) -> None:
    """Also where it says that it is of the other version."""
    for version, size in ((3, 12288), (2, 8192)):
        told = damaged[:4] + bytes([version]) + damaged[5:] if damaged[4] == 3 else damaged
        with pytest.raises(WorkingSetInvalid):
            decode_working_set(told, size, VOLUMES)


@pytest.mark.parametrize("size", [0, 15, 2**20 + 1, 2**32 - 1])
def test_a_directory_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(WorkingSetInvalid):
        directory_size(struct.pack("<4sBBHII", b"SATW", 2, 0, 0, size, 0))


def test_a_frame_of_another_size_is_refused() -> None:
    bomb = encode_working_set([[Run("ram", 0, 256)]], lambda run: bytes(run.count * BLOCK_SIZE))
    frame = frames_of(bomb)[0]
    data = bomb[frame.offset : frame.offset + frame.length]
    assert len(frame.expand(data)) == 1 << 20
    for count in (1, 255):
        with pytest.raises(WorkingSetInvalid):
            Frame(frame.offset, frame.length, (Run("ram", 0, count),)).expand(data)
    for damaged in (b"", data[:-1], data + b"\0", b"\xff" + data, data[:9] + data[8:]):
        with pytest.raises(WorkingSetInvalid):
            frame.expand(damaged)


@pytest.mark.parametrize("version", WorkingSetVersion)
def test_random_damage_never_does_anything_else(version: WorkingSetVersion) -> None:
    choose = random.Random(1)
    for _ in range(5000):
        damaged = bytearray(GOLDEN[version])
        for _ in range(choose.randrange(1, 4)):
            places = (range(len(DIRECTORY)), range(BLOCK_SIZE, len(damaged)))
            damaged[choose.choice(choose.choice(places))] = choose.randrange(256)
        try:
            blocks = blocks_of(bytes(damaged))
        except WorkingSetInvalid:
            continue
        assert all(number < VOLUMES[volume].blocks for volume, number in blocks)


@requires(*MACHINE)
def test_a_checkpoint_carries_what_its_rehearsal_touched(
    notes_checkpoint: NotesCheckpoint, tmp_path: Path
) -> None:
    manifest = notes_checkpoint.manifest
    assert manifest.working_set is not None
    with Store.open(notes_checkpoint.copy_store(tmp_path / "store")) as store:
        blob = store.read(manifest.working_set)
        frames = decode_working_set(blob[: directory_size(blob)], len(blob), manifest.volumes)
        for frame in frames:
            state = b"".join(
                store.read(manifest.volumes[r.volume], r.first * BLOCK_SIZE, r.count * BLOCK_SIZE)
                for r in frame.runs
            )
            assert frame.expand(blob[frame.offset : frame.offset + frame.length]) == state
        names = names_in(blob, manifest.volumes)
        for volume, number in random.Random(1).sample(sorted(names), 200):
            block = store.read(manifest.volumes[volume], number * BLOCK_SIZE, BLOCK_SIZE)
            assert names[volume, number] == (reference(block) if any(block) else bytes(52))
    assert {run.volume for frame in frames for run in frame.runs} == {"ram", "disk0"}
    assert 500 < sum(frame.count for frame in frames) < 20000
