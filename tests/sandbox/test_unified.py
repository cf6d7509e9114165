# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Cells where control groups are of version 2: under Debian's kernel, since few machines that tests
run on have them to themselves."""

import re
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

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short")
OPTIONS = ("--color=no", "-o", "timeout=600")
TESTS = ("under_unified.py", "test_attacks.py", "test_life.py", "test_weights.py")


def test_all_that_a_cell_promises_under_version_2(tmp_path: Path) -> None:
    files = [str(Path("tests/sandbox", name)) for name in TESTS]
    with (tmp_path / "said").open("wb") as said:
        status = debian_kernel.run(
            [*PYTEST, *OPTIONS, *files],
            seconds=2000,
            output=said.fileno(),
            processors=1,
        )
    text = (tmp_path / "said").read_text(errors="replace")
    assert status == 0, text[-6000:]
    (line,) = re.findall(r"^=+ (.* passed.*) in .*$", text, re.MULTILINE)
    assert re.fullmatch(r"\d+ passed", line), line  # none was skipped
