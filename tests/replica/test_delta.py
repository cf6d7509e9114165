# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Deltas: pinned bytes, round trips through stores, and what a hostile one may try."""

import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest

from chunkstore import Store
from replica import DeltaInvalid, MachineSnapshot, Run, decode_delta, delta_between, encode_delta
from satchel.errors import SatchelError
from satchel.ids import BLOCK_SIZE, OperationNumber

GOLDEN = bytes.fromhex("53415444 01 00 0000 00000000 0300000000000000 78014b4c4a0600024d0127")
SIZES = {"ram": 64, "disk0": 100}


def blocks(*numbers: int) -> bytes:
    return b"".join(bytes([number]) * BLOCK_SIZE for number in numbers)


def test_the_bytes_are_pinned() -> None:
    assert encode_delta(b"abc", [], lambda run: b"") == GOLDEN
    assert decode_delta(GOLDEN, {}).device_state == b"abc"


def test_neighbours_go_in_one_run_and_come_back_as_blocks() -> None:
    runs = [Run("ram", number, 1) for number in (3, 4, 5, 9)] + [Run("disk0", 99, 1)]
    data = encode_delta(b"state", runs, lambda run: blocks(*(n for _, n in run.blocks())))
    found = decode_delta(data, SIZES)
    assert found.runs == (Run("ram", 3, 3), Run("ram", 9, 1), Run("disk0", 99, 1))
    assert found.device_state == b"state"
    assert list(found.blocks()) == [
        (name, number, blocks(number))
        for name, number in [("ram", 3), ("ram", 4), ("ram", 5), ("ram", 9), ("disk0", 99)]
    ]


@pytest.mark.parametrize("hasty", [True, False])
def test_a_delta_between_two_states_makes_the_one_of_the_other(
    tmp_path: Path, *, hasty: bool
) -> None:
    luck = random.Random(3)
    Store.create(tmp_path / "store").close()
    with Store.open(tmp_path / "store", level=0) as store:
        content = [luck.choice([bytes(BLOCK_SIZE), luck.randbytes(BLOCK_SIZE)]) for _ in range(64)]
        earlier = {"ram": store.import_bytes(b"".join(content))}
        changed = sorted(luck.sample(range(64), 20))
        for number in changed:
            content[number] = luck.choice([bytes(BLOCK_SIZE), luck.randbytes(BLOCK_SIZE)])
        later = {"ram": store.import_bytes(b"".join(content))}
        device = store.import_bytes(b"device")
        frozen = MachineSnapshot(OperationNumber(0), device, later)
        data = delta_between(store, earlier, frozen, hasty=hasty)
        found = decode_delta(data, {"ram": 64})
        assert found.device_state == b"device"
        assert {number for _, number, _ in found.blocks()} <= set(changed)
        made = bytearray(store.read(earlier["ram"]))
        for _, number, block in found.blocks():
            made[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE] = block
        assert bytes(made) == b"".join(content)


GOOD = encode_delta(b"state", [Run("ram", 3, 2)], lambda run: blocks(1, 2))
_HEADER = "<4sBBHIQ"


def with_header(**changed: object) -> bytes:
    names = ("magic", "version", "volumes", "zero", "runs", "device")
    fields = dict(zip(names, struct.unpack_from(_HEADER, GOOD), strict=True)) | changed
    return struct.pack(_HEADER, *fields.values()) + GOOD[struct.calcsize(_HEADER) :]


def with_body(body: bytes) -> bytes:
    return GOOD[: GOOD.index(b"\x78\x01")] + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:10],
        GOOD[:-1],
        GOOD + b"x",
        with_header(magic=b"SATW"),
        with_header(version=2),
        with_header(volumes=0),
        with_header(volumes=200),
        with_header(runs=2),
        with_header(runs=(1 << 32) - 1),
        with_header(device=4),
        with_header(device=1 << 40),
        with_body(b""),
        with_body(zlib.compress(bytes(100))),
        with_body(zlib.compress(bytes(64 << 20))),
        encode_delta(b"", [Run("ram", 63, 2)], lambda run: blocks(1, 2)),
        encode_delta(b"", [Run("else", 0, 1)], lambda run: blocks(1)),
        encode_delta(b"", [Run("ram", 3, 2), Run("ram", 4, 1)], lambda run: bytes(run.count << 12)),
        encode_delta(b"", [Run("ram", 9, 1), Run("ram", 3, 1)], lambda run: blocks(1)),
    ],
)
def test_what_is_no_delta_is_refused(data: bytes) -> None:
    with pytest.raises(DeltaInvalid):
        decode_delta(data, SIZES)


def test_content_of_many_pieces_comes_back(tmp_path: Path) -> None:
    luck = random.Random(6)
    content = luck.randbytes(700 * BLOCK_SIZE)
    runs = [Run("disk0", 5, 300), Run("disk0", 400, 400)]
    starts = {5: 0, 400: 300 * BLOCK_SIZE}
    state = luck.randbytes((3 << 20) + 77)
    data = encode_delta(
        state, runs, lambda run: content[starts[run.first] :][: run.count * BLOCK_SIZE]
    )
    found = decode_delta(data, {"disk0": 800})
    assert found.device_state == state
    assert b"".join(block for _, _, block in found.blocks()) == content


def test_a_bomb_takes_no_memory() -> None:
    """128 MiB of zeros over blocks that there are."""
    zeros = bytes(1 << 16)
    runs = [Run("disk0", first, 1 << 4) for first in range(0, 1 << 16, 1 << 5)]
    bomb = encode_delta(b"state", runs, lambda run: zeros)
    assert len(bomb) < 2 << 20
    tracemalloc.start()
    try:
        found = decode_delta(bomb, {"disk0": 1 << 16})
        assert sum(1 for _ in found.blocks()) == 1 << 15
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_no_damage_raises_anything_unforeseen() -> None:
    luck = random.Random(5)
    for _ in range(3000):
        data = bytearray(GOOD)
        for _ in range(luck.randrange(1, 4)):
            data[luck.randrange(len(data))] = luck.randrange(256)
        try:
            decode_delta(bytes(data[: luck.choice([len(data), luck.randrange(len(data))])]), SIZES)
        except SatchelError as error:
            assert isinstance(error, DeltaInvalid)
