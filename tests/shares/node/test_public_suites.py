# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two public suites on a mounted share, which scripts/bootstrap installs: pjdfstest holds calls
against POSIX, as several users, and fsx compares random reads with its writes."""

from __future__ import annotations

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
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
[dummy_auth]
entries = [["daemon", "daemon"], ["bin", "bin"], ["sys", "sys"]]
"""

CASES, PASSED = 398, 207

NOT_OF_A_SHARE = {
    r".*::(fifo|socket|char|block)": "a named pipe, a socket or a device: EPERM",
    r"mk(fifo|nod)::(uid_gid_eq_euid_egid|changed_time_fields_success)": "named pipes",
    r"mk(fifo|nod)::permission_bits_from_mode": "named pipes",
    r"open::(fifo_nonblock_wronly|socket_error)": "a named pipe, and a socket",
}
"""Cases that fail, and why."""

NOT_RUN = {
    "Remounts": "a mount that is made read-only: needs the suite to remount",
    "No secondary file-system": "EXDEV is the kernel's, before it asks a mount",
    "Cannot get value for LINK_MAX": "home's file system has a limit, and a mount tells of none",
}

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


def test_pjdfstest(short_path: Path, tmp_path: Path) -> None:
    """Other users have to come to the mount, so it is not in a folder of pytest's."""
    settings, folder = tmp_path / "settings", short_path / "world"
    settings.write_text(POSIX)
    short_path.chmod(0o755)
    folder.mkdir()
    with closing(Mounts(folder, short_path)) as world:
        done = subprocess.run(
            [SUITES / "pjdfstest", "-c", settings, "-p", world.mount()],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    lines = re.findall(r"^(\S+::\S+) +(ok|FAILED|skipped)(?:\n\t(.*))?$", done.stdout, re.MULTILINE)
    assert len(lines) == CASES, done.stdout[-2000:] + done.stderr[-2000:]
    excluded = re.compile("|".join(NOT_OF_A_SHARE))
    assert [line for line in lines if line[1] == "FAILED" and not excluded.fullmatch(line[0])] == []
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
