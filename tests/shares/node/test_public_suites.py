# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two public suites on a mounted share, which scripts/bootstrap installs: pjdfstest holds calls
against POSIX, as several users, and fsx compares random reads with its writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.needs import lacking, requires
from tests.shares.node.test_mounts import Mounts, world

__all__ = ["world"]

SUITES = Path(sys.prefix) / "suites" / "bin"

pytestmark = requires("fuse", "root", str(SUITES / "pjdfstest"), str(SUITES / "fsx"))

POSIX = """
[features]
secondary_fs = "/dev/shm"
posix_fallocate = {{}}
rename_ctime = {{}}
utime_now = {{}}
utimensat = {{}}
[settings]
naptime = 0.01
allow_remount = {remount}
[dummy_auth]
entries = [["daemon", "daemon"], ["bin", "bin"], ["sys", "sys"]]
"""

CASES, PASSED, REMOUNTS = 398, 209, 13

NOT_OF_A_SHARE = {
    r".*::(fifo|socket|char|block)": "a named pipe, a socket or a device: EPERM",
    r"mk(fifo|nod)::(uid_gid_eq_euid_egid|changed_time_fields_success)": "named pipes",
    r"mk(fifo|nod)::permission_bits_from_mode": "named pipes",
    r"open::(fifo_nonblock_wronly|socket_error)": "a named pipe, and a socket",
}
"""Cases that fail, and why."""

NOT_MADE = (
    "called `Result::unwrap()` on an `Err` value: EPERM",
    "assertion failed: mknod(",
    "assertion failed: f(&path, Mode::from_bits_truncate(mode)).is_ok()",
)
"""How each of them fails: where it makes such a file."""

NOT_RUN = {
    "Remounts": "a second process of the suite runs these: the first leaves files open",
    "Cannot get value for LINK_MAX": "home's file system has a limit, and a mount tells of none",
}

MOUNT = '#!/bin/sh\nexec /usr/bin/mount -i "$@"\n'
"""mount(8) that does not look for a helper program of the file system."""

RANDOM = """
flen = 1048576
[opsize]
max = 65536
[weights]
close_open = 1
read = 10
write = 10
truncate = 2
fsync = 1
fdatasync = 1
posix_fallocate = 1
punch_hole = 2
copy_file_range = 2
mapread = {maps}
mapwrite = {maps}
"""


def pjdfstest(place: Path, folder: Path, *, remount: bool) -> list[tuple[str, str, str]]:
    """Run all cases, or those that remount the file system; a case, how it went, and why."""
    settings, helper = folder / "settings", folder / "mount"
    settings.write_text(POSIX.format(remount=str(remount).lower()))
    helper.write_text(MOUNT)
    helper.chmod(0o755)
    cases = ["erofs"] if remount else []
    done = subprocess.run(
        [SUITES / "pjdfstest", "-c", settings, "-p", place, *cases],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    lines = re.findall(r"^(\S+::\S+) +(ok|FAILED|skipped)(?:\n\t(.*))?$", done.stdout, re.MULTILINE)
    assert len(lines) == (REMOUNTS if remount else CASES), done.stdout[-2000:] + done.stderr[-2000:]
    return lines


def test_pjdfstest(short_path: Path, tmp_path: Path) -> None:
    """Other users have to come to the mount, so it is not in a folder of pytest's."""
    folder = short_path / "world"
    short_path.chmod(0o755)
    folder.mkdir()
    with closing(Mounts(folder, short_path)) as world:
        place = world.mount()
        lines = pjdfstest(place, tmp_path, remount=False)
        remounted = pjdfstest(place, tmp_path, remount=True)
    assert {how for _, how, _ in remounted} == {"ok"}, remounted
    failed = [(name, why) for name, how, why in lines if how == "FAILED"]
    excluded = re.compile("|".join(NOT_OF_A_SHARE))
    assert [each for each in failed if not excluded.fullmatch(each[0])] == []
    assert [each for each in failed if not each[1].startswith(NOT_MADE)] == []
    for pattern in NOT_OF_A_SHARE:
        assert any(re.fullmatch(pattern, name) for name, _ in failed), pattern
    skipped = {why for _, how, why in lines if how == "skipped"}
    assert all(why.startswith(tuple(NOT_RUN)) for why in skipped), skipped
    assert sum(how == "ok" for _, how, _ in lines) >= PASSED


def fsx(place: Path, folder: Path, seed: int, operations: int) -> None:
    maps = 0 if lacking("mappings") else 5
    settings = folder / f"settings{seed}"
    settings.write_text(RANDOM.format(maps=maps))
    argv = [SUITES / "fsx", "-f", settings, "-N", operations, "-S", seed, "-P", folder]
    done = subprocess.run(
        [*map(str, argv), str(place / f"file{seed}")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_fsx(world: Mounts, tmp_path: Path) -> None:
    fsx(world.mount(), tmp_path, seed=7, operations=800)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_fsx_for_long(world: Mounts, tmp_path: Path, seed: int) -> None:
    fsx(world.mount(), tmp_path, seed, operations=10_000)
