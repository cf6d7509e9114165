# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shared mappings of files of mounts: what docs/shares.md says of them, beside ext4 where that
says the same."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shares.node import KEEP_SIZE, PUNCH_HOLE
from tests.needs import requires
from tests.shares.history import Operation, check, dump
from tests.shares.node.mapper import PAGE, Killed, Mapper
from tests.shares.node.test_mounts import Mounts, mounts, staying, world
from tests.waiting import eventually

__all__ = ["mounts", "staying", "world"]

pytestmark = requires("fuse", "mappings")


@pytest.fixture(params=["a local folder", "one mount", "two mounts"])
def views(request: pytest.FixtureRequest, tmp_path: Path, mounts: list[Path]) -> list[Path]:
    """Two paths to one file, which programs use at once."""
    places = {
        "a local folder": [tmp_path, tmp_path],
        "one mount": [mounts[0], mounts[0]],
        "two mounts": mounts,
    }[request.param]
    return [place / "f" for place in places]


def test_a_store_is_read_after_msync(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(bytes(3 * PAGE))
    with Mapper(one) as mapped:
        for turn in range(1, 20):
            mapped.store(PAGE + turn, bytes([turn]))
            mapped.msync()
            assert two.read_bytes()[PAGE + turn] == turn


def test_a_mapping_shows_what_is_written(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(bytes(3 * PAGE))
    with Mapper(one) as mapped, two.open("r+b", buffering=0) as writer:
        for turn in range(1, 50):
            assert mapped.load(PAGE) == bytes([turn - 1])
            os.pwrite(writer.fileno(), bytes([turn]), PAGE)
            assert mapped.load(PAGE) == bytes([turn])


def test_a_hole_shows_in_mappings(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * 5 * PAGE)
    libc = ctypes.CDLL(None, use_errno=True)
    with Mapper(one) as mapped, Mapper(two) as other, two.open("r+b", buffering=0) as opened:
        assert mapped.load(PAGE) == other.load(PAGE) == b"x"
        place = ctypes.c_int64(PAGE), ctypes.c_int64(2 * PAGE)
        assert libc.fallocate(opened.fileno(), KEEP_SIZE | PUNCH_HOLE, *place) == 0
        expected = b"x" * PAGE + bytes(2 * PAGE) + b"x" * 2 * PAGE
        assert other.load(0, 5 * PAGE) == expected
        assert mapped.load(0, 5 * PAGE) == expected


def test_a_program_that_only_loads_sees_each_write_in_its_turn(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(bytes(PAGE))
    with Mapper(one) as mapped, two.open("r+b", buffering=0) as writer:
        mapped.begin("spin", 0, 300_000)
        for turn in range(1, 100):
            os.pwrite(writer.fileno(), bytes([turn]), 0)
        seen = list(bytes.fromhex(mapped.end()))
        assert seen == sorted(seen)
        assert mapped.load(0) == b"c"


def test_a_mapping_outlives_its_descriptor(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(bytes(2 * PAGE))
    with Mapper(one) as mapped:
        mapped.close()
        mapped.store(PAGE, b"late")
        mapped.munmap()
        assert two.read_bytes()[PAGE : PAGE + 4] == b"late"


def test_two_mappings_show_each_others_stores_after_msync(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(bytes(2 * PAGE))
    with Mapper(one) as a, Mapper(two) as b:
        for turn in range(20):
            a.store(0, b"a%02d" % turn)
            a.msync()
            assert b.load(0, 3) == b"a%02d" % turn
            b.store(0, b"b%02d" % turn)
            b.msync()
            assert a.load(0, 3) == b"b%02d" % turn


def test_stores_of_who_has_opened_it_to_append_go_where_they_belong(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * PAGE)
    with Mapper(one, kind="append") as mapped:
        mapped.store(10, b"here")
        mapped.msync()
        assert two.read_bytes() == b"x" * 10 + b"here" + b"x" * (PAGE - 14)


def test_loads_behind_a_new_end_are_sigbus(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * 3 * PAGE)
    with Mapper(one) as mapped:
        assert mapped.load(0, 3 * PAGE) == b"x" * 3 * PAGE
        os.truncate(two, PAGE + 100)
        assert mapped.load(PAGE, PAGE) == b"x" * 100 + bytes(PAGE - 100)
        with pytest.raises(Killed, match="SIGBUS"):
            mapped.load(2 * PAGE)


def test_what_is_longer_again_is_mapped_again(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * 3 * PAGE)
    with Mapper(one) as mapped:
        assert mapped.load(2 * PAGE) == b"x"
        os.truncate(two, 100)
        with two.open("r+b") as file:
            file.seek(2 * PAGE)
            file.write(b"y")
        assert one.stat().st_size == 2 * PAGE + 1  # the mapping's kernel hears of it so
        assert mapped.load(0, 2 * PAGE + 1) == b"x" * 100 + bytes(2 * PAGE - 100) + b"y"


def test_stores_behind_the_end_make_no_file_longer(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * 2 * PAGE)
    with Mapper(one) as mapped:
        mapped.store(PAGE, b"lost")
        mapped.store(200, b"lost too")
        os.truncate(two, 100)
        mapped.munmap()
        assert two.read_bytes() == b"x" * 100
        assert one.stat().st_size == 100


def test_a_program_cuts_what_it_has_mapped_and_changed(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * 4 * PAGE)
    with Mapper(one) as mapped:
        for page in range(4):
            mapped.store(page * PAGE, b"new")
        mapped.truncate(PAGE + 2)
        assert two.read_bytes() == b"new" + b"x" * (PAGE - 3) + b"ne"
        mapped.truncate(2 * PAGE)
        mapped.store(2 * PAGE - 1, b"z")
        mapped.msync()
        assert two.read_bytes()[PAGE:] == b"ne" + bytes(PAGE - 3) + b"z"


def test_a_private_mapping_keeps_its_stores_to_itself(views: list[Path]) -> None:
    one, two = views
    one.write_bytes(b"x" * 2 * PAGE)
    with Mapper(one, kind="private") as mapped:
        mapped.store(0, b"mine")
        mapped.munmap()
    assert two.read_bytes() == b"x" * 2 * PAGE


def test_home_has_a_page_after_msync_and_soon_after_the_last_close(world: Mounts) -> None:
    place = world.mount()
    (place / "f").write_bytes(bytes(2 * PAGE))
    with Mapper(place / "f") as mapped:
        mapped.store(5, b"synced")
        mapped.msync()
        assert (world.root / "f").read_bytes()[5:11] == b"synced"
        mapped.store(PAGE, b"closed")
        mapped.close()
        mapped.munmap()
    assert eventually(lambda: (world.root / "f").read_bytes()[PAGE : PAGE + 6] == b"closed")


def test_unmounting_keeps_what_was_stored_and_unmapped(world: Mounts) -> None:
    place = world.mount()
    (place / "f").write_bytes(bytes(64 * PAGE))
    with Mapper(place / "f") as mapped:
        for page in range(64):
            mapped.store(page * PAGE, b"%03d" % page)
    world.processes[0].close()
    found = (world.root / "f").read_bytes()
    assert [found[page * PAGE : page * PAGE + 3] for page in range(64)] == [
        b"%03d" % page for page in range(64)
    ]


def run_history(paths: list[Path], turns: int, pages: int) -> list[Operation]:
    """What programs saw, each with a mapping of one of the paths."""
    paths[0].write_bytes(bytes(pages * PAGE))
    programs = [Mapper(path) for path in paths]
    for number, program in enumerate(programs):
        program.begin("history", number, turns, pages)
    found = [Operation(*values) for program in programs for values in json.loads(program.end())]
    for program in programs:
        program.quit()
    assert len(found) == turns * len(paths)
    return found


def test_stores_with_their_msync_and_loads_are_of_one_memory(
    mounts: list[Path], record_property: Callable[[str, object], None]
) -> None:
    history = run_history([place / "f" for place in mounts], 300, 3)
    record_property("writes", sum(operation.writes for operation in history))
    violations = check(history)
    assert not violations, dump(violations[0].operations)
