# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Cells where control groups are of version 2: under Debian's kernel, since few machines that tests
run on have them to themselves."""

import sys
from pathlib import Path

import pytest

from testbed import debian_kernel
from tests.needs import requires

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(2400),
    requires("root", "apt-get", "busybox", "bwrap"),
]

TESTS = ("under_unified.py", "test_attacks.py", "test_life.py")


def test_all_that_a_cell_promises_under_version_2(tmp_path: Path) -> None:
    pytest_there = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short"]
    files = [str(Path("tests/cell", name)) for name in TESTS]
    with (tmp_path / "said").open("wb") as said:
        status = debian_kernel.run(
            [*pytest_there, "-o", "timeout=600", *files],
            seconds=2000,
            output=said.fileno(),
            processors=1,
        )
    text = (tmp_path / "said").read_text(errors="replace")
    assert status == 0, text[-6000:]
    assert "test_every_controller_limits_a_cell PASSED" in text
    assert "SKIPPED" not in text
