# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Public suites of file-system calls on mounted shares: libfuse's, and CPython's tests of its os
module and of what stands on it, as Debian packages them (libpython3.11-testsuite).

What a share does not have is named here, and docs/shares.md says so.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.node.libfuse_suite import libfuse_suite
from tests.shares.node.test_mounts import Mounts, world

__all__ = ["world"]

pytestmark = requires("fuse", "root")

PYTHON = "/usr/bin/python3.11"

LIBFUSE_CASES = 58
"""Those that root runs; others are about permissions that root does not need."""

NOT_OF_A_SHARE = {
    "mkfifo": "named pipes: EPERM, as POSIX has it for a file system without them",
    "socket": "names of Unix sockets: EPERM",
}

HOMES_TIME = (
    "the time of the last status change is that of home's file system, when home has stored what a"
    " node wrote: a moment after the time of the write itself"
)

LEFT_OUT = {
    "*many_open_files*": "names 100 folders deep, a thousand times: minutes, one request per name",
    "test_filetime": HOMES_TIME,
    "test_path_getctime": HOMES_TIME + ", and perhaps after a first stat",
}

SKIPPED_FOR_US = {
    "named pipes": r"mkfifo\(\): \[Errno 1\]",
    "sockets": r"Unix socket: \[Errno 1\]",
    "extended attributes": r"extended attribute",
}
"""What CPython's tests say when they find that the file system has not got it."""

SHORT = [
    *("test_posix", "test_os", "test_fileio", "test_file", "test_tempfile", "test_genericpath"),
    *("test_posixpath", "test_stat", "test_filecmp", "test_fileinput", "test_fcntl"),
]
LONG = [
    *("test_shutil", "test_pathlib", "test_glob", "test_mailbox", "test_dbm_dumb", "test_zipfile"),
    *("test_dbm_ndbm", "test_tarfile", "test_bufio", "test_io", "test_largefile", "test_gzip"),
]


def syscalls(*arguments: object) -> dict[str, str]:
    """What failed of libfuse's suite, and how, by the name of the case."""
    done = subprocess.run(
        [libfuse_suite(), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    lines = re.findall(r"^ *\d+ \[(.*)\] (.*)$", done.stdout + done.stderr, re.MULTILINE)
    assert len(lines) >= LIBFUSE_CASES, done.stdout + done.stderr
    return {name: said for name, said in lines if said != "OK"}


@pytest.mark.parametrize(
    "arguments",
    [
        lambda one, two: [one],
        lambda one, two: [one, "-u"],
        lambda one, two: [one, f":{two}"],
    ],
    ids=["one mount", "files unlinked while open", "done at one mount, looked at through another"],
)
def test_libfuses_suite(world: Mounts, arguments: Callable[[Path, Path], list[object]]) -> None:
    failed = syscalls(*arguments(world.mount(), world.mount()))
    assert failed.keys() == NOT_OF_A_SHARE.keys(), failed
    assert all("Operation not permitted" in said for said in failed.values())


def cpython(place: Path, modules: list[str], seconds: float) -> Counter[str]:
    """Run these modules of CPython's tests in that folder: how many were run, and how many were
    skipped for what a share has not."""
    ignored = [word for pattern in LEFT_OUT for word in ("--ignore", pattern)]
    done = subprocess.run(
        [PYTHON, "-m", "test", "-v", "--tempdir", place, *ignored, *modules],
        cwd="/",
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    said = done.stdout + done.stderr
    faults = re.findall(r"^(?:ERROR|FAIL): .*$", said, re.MULTILINE)
    assert done.returncode == 0 and not faults, f"{faults}\n{said[-8000:]}"
    found = Counter({"run": sum(map(int, re.findall(r"^Ran (\d+) tests? in", said, re.MULTILINE)))})
    for what, pattern in SKIPPED_FOR_US.items():
        found[what] = len(re.findall(rf"\.\.\. skipped .*{pattern}", said))
    return found


@requires(PYTHON)
def test_cpythons_tests_of_the_calls_of_the_system(
    world: Mounts, record_property: Callable[[str, object], None]
) -> None:
    found = cpython(world.mount(), SHORT, 400)
    record_property("cpython", dict(found))
    assert found["run"] > 800
    skipped = sum(found[what] for what in SKIPPED_FOR_US)
    assert 0 < skipped < 20


@pytest.mark.nightly
@requires(PYTHON)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("module", LONG)
def test_cpythons_tests_of_what_stands_on_them(
    world: Mounts, module: str, record_property: Callable[[str, object], None]
) -> None:
    found = cpython(world.mount(), [module], 1800)
    record_property("cpython", dict(found))
    assert found["run"] > 0
