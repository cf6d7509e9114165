# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a process that went through the launcher can no longer do."""

import subprocess
import sys

import pytest

from hypervisor.qemu import launch
from tests.conftest import requires

MADVISE = """
import mmap, re
area = mmap.mmap(-1, 8 << 20)
area.madvise(14)
area.madvise(mmap.MADV_RANDOM)
flags = [line for line in open("/proc/self/smaps") if line.startswith("VmFlags")]
print(any(" hg" in line for line in flags), any(" rr" in line for line in flags))
"""


def launched(code: str) -> subprocess.CompletedProcess[str]:
    return run("--", sys.executable, "-c", code)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", launch.__file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_only_the_huge_page_advice_does_nothing() -> None:
    done = launched(MADVISE)
    assert done.stdout == "False True\n", done.stderr


def test_no_new_privileges_and_a_filter() -> None:
    status = launched("print(open('/proc/self/status').read())").stdout
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


@requires("root")
def test_root_has_no_capabilities() -> None:
    status = launched("print(open('/proc/self/status').read())").stdout
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status


def test_a_file_cannot_grow_beyond_the_limit_and_the_process_lives() -> None:
    code = (
        "import tempfile, os\n"
        "file = tempfile.TemporaryFile(buffering=0)\n"
        f"os.lseek(file.fileno(), {launch.FILE_LIMIT - 2}, 0)\n"
        "print(os.write(file.fileno(), b'1234'))\n"
        "try: os.write(file.fileno(), b'5')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert launched(code).stdout == "2\nFile too large\n"


def test_no_core_is_dumped() -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert launched(code).stdout == "(0, 0)\n"


def test_the_exit_status_is_the_program_s() -> None:
    assert launched("raise SystemExit(42)").returncode == 42


def test_a_program_that_is_not_there() -> None:
    done = run("--", "no-such-program-of-ours")
    assert done.returncode == launch.NOT_FOUND
    assert "no-such-program-of-ours: No such file or directory" in done.stderr


def test_wrong_usage() -> None:
    assert run("qemu").returncode == launch.SETUP_FAILED
    assert "usage" in run("--").stderr


def test_a_machine_that_has_no_filter_is_not_served() -> None:
    with pytest.raises(KeyError):
        launch.huge_page_filter("pdp11")
