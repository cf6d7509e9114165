# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of home work in the shared folder itself while programs use it at two mounts: what
docs/shares.md promises of that, by random programs and by unmodified ones."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.node.test_mounts import LEASE, mounts, run, staying
from tests.waiting import eventually

__all__ = ["mounts", "staying"]

pytestmark = requires("fuse", "git", "rsync")

SOON = 1.0
NAMES = ("a", "b", "d/a", "d/b")
TURNS = 60
LINES = 80


@pytest.fixture
def places(staying: list[Path], mounts: list[Path]) -> Iterator[list[Path]]:
    """The folder of the test at home, and at both mounts."""
    yield [staying[0].parent / "root" / mounts[0].name, *mounts]


def shows(path: Path, content: bytes) -> bool:
    """Return whether programs read that there soon."""
    return eventually(lambda: path.exists() and path.read_bytes() == content, SOON)


def append(path: Path, data: bytes) -> bytes:
    before = path.read_bytes()
    with path.open("ab", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    return before + data


def replace_by_another(path: Path, data: bytes) -> bytes:
    temporary = path.with_name("temporary")
    temporary.write_bytes(data)
    temporary.replace(path)
    return data


def overwrite(path: Path, data: bytes) -> bytes:
    content = bytearray(path.read_bytes())
    at = min(len(content), 5000)
    with path.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), data, at)
        os.fsync(file.fileno())
    content[at : at + len(data)] = data
    return bytes(content)


def cut(path: Path, data: bytes) -> bytes:
    size = len(data) * 3
    content = path.read_bytes()
    os.truncate(path, size)
    return content[:size].ljust(size, b"\0")


def rewrite(path: Path, data: bytes) -> bytes:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return data


def make_again(path: Path, data: bytes) -> bytes:
    path.unlink()
    return rewrite(path, data)


CHANGES: list[Callable[[Path, bytes], bytes]] = [
    append,
    replace_by_another,
    overwrite,
    cut,
    rewrite,
    make_again,
]


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_in_turn_are_seen_by_all(places: list[Path], seed: int) -> None:
    dice = random.Random(seed)
    (places[0] / "d").mkdir()
    expected = dict.fromkeys(NAMES, b"")
    for name in NAMES:
        (places[0] / name).write_bytes(b"")
    there = [place / name for place in places for name in NAMES]
    assert eventually(lambda: all(path.exists() for path in there), SOON)
    held = [(place / name).open("rb") for place in places[1:] for name in NAMES[:2]]
    for turn in range(TURNS):
        place, name = dice.choice([*places, places[0]]), dice.choice(NAMES)
        change = dice.choice(CHANGES)
        data = dice.randbytes(dice.choice((1, 10, 3000, 9000)))
        assert shows(place / name, expected[name])
        expected[name] = change(place / name, data)
        about = turn, place, name, change.__name__
        for other in places:
            path = other / name
            assert shows(path, expected[name]), (about, other)
            assert path.stat().st_size == len(expected[name]), (about, other)
    for file in held:
        file.close()
    assert not list(places[0].rglob("*conflict*"))


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "opened"])
def test_three_programs_append_to_one_log(places: list[Path], *, kept: bool) -> None:
    """One of them at home, which keeps the file open or opens it for each line. Lines of home's
    program were lost, and zeros were left in the log."""
    writers = zip("hab", (kept, True, True), places, strict=True)
    (places[0] / "log").touch()
    assert eventually(lambda: all((place / "log").exists() for place in places), SOON)
    threads = [threading.Thread(target=append_lines, args=each) for each in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logs = [place / "log" for place in places]
    assert eventually(lambda: len({path.read_bytes() for path in logs}) == 1, SOON)
    assert b"\0" not in logs[0].read_bytes()
    wanted = {b"%c %d" % (who, number) for who in b"hab" for number in range(LINES)}
    lines = {line for path in places[0].iterdir() for line in path.read_bytes().splitlines()}
    assert wanted - lines == set()


def append_lines(who: str, kept: bool, place: Path) -> None:
    dice = random.Random(who)
    with (place / "log").open("ab", buffering=0) as file:
        for number in range(LINES):
            line = b"%s %d\n" % (who.encode(), number)
            if kept:
                file.write(line)
                if dice.random() < 0.3:
                    os.fsync(file.fileno())
            else:
                with (place / "log").open("ab") as again:
                    again.write(line)
            time.sleep(dice.random() * 0.02)


def test_files_that_home_and_a_mount_make_at_once(places: list[Path]) -> None:
    """The mount makes files in its own folder before home hears of them. Programs there got EEXIST
    without O_EXCL, and their content was lost."""
    names = [f"f{number}" for number in range(10)]
    for folder in map(str, range(8)):
        (places[1] / folder).mkdir()
        (places[1] / folder / "first").write_bytes(b"")
        with ThreadPoolExecutor() as pool:
            list(pool.map(make_all, places[:2], (folder, folder), (names, names)))
        wanted = {line(place, name) for name in names for place in places[:2]}
        assert eventually(partial(has_lines, places[0] / folder, wanted))


def has_lines(folder: Path, wanted: set[bytes]) -> bool:
    """Return whether each is in one of the folder's files."""
    return wanted <= {each for path in folder.iterdir() for each in path.read_bytes().splitlines()}


def line(place: Path, name: str) -> bytes:
    return f"{name} at {place}".encode()


def make_all(place: Path, folder: str, names: list[str]) -> None:
    for name in names:
        with (place / folder / name).open("ab") as file:
            file.write(line(place, name) + b"\n")


def test_a_mount_tells_of_a_conflict_copy(places: list[Path]) -> None:
    home, one, _ = places
    with (one / "f").open("wb", buffering=0) as file:
        file.write(b"first")
        os.fsync(file.fileno())
        replace_by_another(home / "f", b"home's")
        file.write(b" and more")
        os.fsync(file.fileno())
    (copy,) = home.glob("f.sync-conflict-*")
    log = one.parent.with_suffix(".log")
    assert eventually(lambda: f"{home.name}/{copy.name}" in log.read_text(), LEASE)


def test_git_at_home_is_seen_by_mounts(places: list[Path]) -> None:
    home, one, two = places
    identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a"
    identity += " GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent"
    identity += " GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'"
    run(home, f"{identity}; git init -qb main up; cd up; echo 0 >f; git add f; git commit -qm 0")
    run(home, f"{identity}; git clone -q up repo")
    for turn in range(1, 4):
        run(home, f"{identity}; cd up; echo {turn} >f; cp f n{turn}; git add .; git commit -qm up")
        assert (one / "repo" / "f").read_text() == f"{turn - 1}\n"
        run(home, f"{identity}; cd repo; git pull -q")
        for place in (one, two):
            for name in ("f", f"n{turn}"):
                assert shows(place / "repo" / name, b"%d\n" % turn)
        assert run(two, f"{identity}; cd repo; git status --porcelain") == ""


@pytest.mark.parametrize("how", ["-a", "-a --inplace"], ids=["beside", "inplace"])
def test_rsync_at_home_is_seen_by_mounts(places: list[Path], tmp_path: Path, how: str) -> None:
    home, *others = places
    source = tmp_path / "source"
    source.mkdir()
    for turn in range(3):
        for number in range(10):
            (source / f"f{number}").write_bytes(
                random.Random(turn * 10 + number).randbytes(5000 + turn)
            )
        run(home, f"rsync {how} --delete {source}/ copy/")
        for place in others:
            for file in source.iterdir():
                assert shows(place / "copy" / file.name, file.read_bytes())


@pytest.mark.nightly
@pytest.mark.parametrize("synced", [True, False])
def test_home_and_a_mount_overwrite_bytes_of_one_block(places: list[Path], *, synced: bool) -> None:
    """The mount's program all the time, so that home stores the block at that moment. Of 100 writes
    of home's program two were lost."""
    lost, chance = [], random.Random(synced)
    for turn in range(100):
        path, mark = places[0] / f"f{turn}", b"home's %d" % turn
        path.write_bytes(bytes(4096))
        assert shows(places[1] / path.name, bytes(4096))
        over = threading.Event()
        writer = threading.Thread(target=count, args=(places[1] / path.name, over, synced))
        writer.start()
        time.sleep(0.02 + 0.02 * chance.random())
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), mark, 2100)
        time.sleep(0.05)
        over.set()
        writer.join()
        if not eventually(partial(kept, path, mark), 2.0):
            lost.append(turn)
    assert lost == []


def count(path: Path, over: threading.Event, synced: bool) -> None:
    with path.open("r+b", buffering=0) as file:
        number = 0
        while not over.wait(0.0 if synced else 0.001):
            os.pwrite(file.fileno(), b"%6d" % number, 100)
            number += 1
            if synced:
                os.fsync(file.fileno())


def kept(path: Path, mark: bytes) -> bool:
    """Return whether the file or one of its conflict copies has the mark."""
    copies = path.parent.glob(f"{path.stem}.sync-conflict*")
    return any(mark in each.read_bytes() for each in [path, *copies])
