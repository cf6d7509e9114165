# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Public programs that load a file system and verify what they read, on mounted shares: stress-ng
and fio, as Debian packages them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.node.test_mounts import Mounts, world

__all__ = ["world"]

pytestmark = requires("fuse", "root", "mappings")

NAMES = ["rename", "touch", "utime", "chmod", "access", "open", "mknod", "handle", "filename"]
CONTENT = ["hdd", "iomix", "sync-file", "fallocate", "fpunch", "fstat", "copy-file", "seek"]
LOCKS = ["flock", "locka", "lockf", "lockofd", "lease", "fcntl", "dup"]
MAPPINGS = ["mmap", "mmapfixed", "msync", "mmapaddr", "sendfile", "readahead", "aio", "revio"]
FOLDERS = ["chdir", "chown", "dir", "dirmany"]
MANY_NAMES = ["dentry", "dirdeep", "link", "symlink"]
"""Their unit of work is thousands of names: 5 to 30 s each, whatever time they are given."""

LEFT_OUT = {
    "bind-mount": "makes mounts of its own, beside the share",
    "binderfs": "another file system's",
    "chattr": "flags that no FUSE file system has",
    "dnotify": "a kernel tells nobody of its own of what other nodes do; fanotify, inotify as well",
    "eventfd": "has no files",
    "fanotify": "as dnotify",
    "fiemap": "a share does not tell where on a disk its blocks are; skipped by itself",
    "file-ioctl": "flags that no FUSE file system has",
    "fsize": "its unit of work takes minutes: writes of single bytes at the ends of sparse files",
    "getdent": "reads other file systems: /proc, /dev, /tmp",
    "inode-flags": "flags that no FUSE file system has",
    "inotify": "as dnotify",
    "io": "syncs every mount of the machine",
    "ioprio": "about a disk's scheduler",
    "procfs": "another file system's",
    "verity": "a share has it not; skipped by itself",
    "xattr": "a share has none; skipped by itself",
}
"""Stressors of stress-ng's class `filesystem`."""


def stress(place: Path, stressors: list[str], seconds: int) -> None:
    """All of them at once, two processes of each, in a folder of their own."""
    chosen = [word for name in stressors for word in (f"--{name}", "2")]
    argv = ["stress-ng", "--verify", "--timeout", str(seconds), "--temp-path", str(place), *chosen]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60 + 20 * seconds, check=False
    )
    said = done.stdout + done.stderr
    faults = re.findall(r"^stress-ng: (?:fail|error).*$", said, re.MULTILINE)
    assert done.returncode == 0 and not faults, said[-8000:]
    assert "skip" not in said, said[-8000:]
    assert not list(place.iterdir()), "it leaves nothing behind, where it finds all that it made"


@requires("stress-ng")
def test_every_stressor_of_file_systems_is_run_or_left_out_for_a_reason() -> None:
    argv = ["stress-ng", "--class", "filesystem?"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    known = set((done.stdout + done.stderr).split(":", 1)[1].split())
    run = {*NAMES, *CONTENT, *LOCKS, *MAPPINGS, *FOLDERS, *MANY_NAMES}
    assert not run & LEFT_OUT.keys()
    assert known <= run | LEFT_OUT.keys()


@requires("stress-ng")
@pytest.mark.parametrize("stressors", [NAMES, CONTENT, LOCKS, MAPPINGS, FOLDERS])
def test_stressors_verify_what_they_did(world: Mounts, stressors: list[str]) -> None:
    stress(world.mount(), stressors, 2)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@requires("stress-ng")
@pytest.mark.parametrize("stressors", [NAMES, CONTENT, LOCKS, MAPPINGS, FOLDERS, MANY_NAMES])
def test_stressors_at_two_mounts_for_longer(world: Mounts, stressors: list[str]) -> None:
    places = [world.mount(), world.mount()]
    for place in places:
        (place / place.name).mkdir()
    argv = ["stress-ng", "--verify", "--timeout", "60"]
    chosen = [word for name in stressors for word in (f"--{name}", "2")]
    programs = [
        subprocess.Popen([*argv, "--temp-path", place / place.name, *chosen]) for place in places
    ]
    assert [program.wait(1500) for program in programs] == [0, 0]
    assert not [left for place in places for left in (place / place.name).iterdir()]


def fio(file: Path, *options: str) -> None:
    done = subprocess.run(
        [
            *("fio", "--name=verified", f"--filename={file}", "--bsrange=4k-64k"),
            *("--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", *options),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=file.parent.parent,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    assert "verify:" not in done.stderr, done.stderr


ENGINES = ["psync", "mmap", "libaio"]


@requires("fio")
@pytest.mark.parametrize("engine", ENGINES)
def test_fio_verifies_at_both_mounts_what_it_wrote_at_one(world: Mounts, engine: str) -> None:
    one, two = world.mount(), world.mount()
    for order in ("write", "randwrite"):
        written = [f"--ioengine={engine}", f"--rw={order}", "--size=8m"]
        fio(one / order, *written)
        for other in ENGINES:
            fio(two / order, f"--ioengine={other}", *written[1:], "--verify_only=1")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@requires("fio")
@pytest.mark.parametrize("engine", ENGINES)
def test_fio_verifies_for_longer(world: Mounts, engine: str) -> None:
    one, two = world.mount(), world.mount()
    for place, other in ((one, two), (two, one)) * 5:
        written = [f"--ioengine={engine}", "--rw=randwrite", "--size=128m"]
        fio(place / "f", *written, f"--randseed={place.name[-1]}")
        fio(other / "f", *written, f"--randseed={place.name[-1]}", "--verify_only=1")
