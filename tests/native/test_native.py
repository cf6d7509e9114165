# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's own tests, in C++: each of them is one here.

`scripts/bootstrap` builds them. `tests/native/_native/native_tests --gtest_filter=NAME` runs one by
hand; what a failing crash state prints begins with the settings that repeat it.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "_native" / "native_tests"


def names() -> list[str]:
    """As "Suite.Name", in the order of the program."""
    argv = [str(PROGRAM), "--gtest_list_tests"]
    listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = []
    suite = ""
    for line in listing.splitlines()[1:]:
        word = line.split("#")[0].rstrip()
        if word.startswith(" "):
            found.append(suite + word.strip())
        else:
            suite = word
    return found


@pytest.mark.parametrize("name", names())
def test_native(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    environment = dict(os.environ, TEST_TMPDIR=str(tmp_path))
    if request.config.getoption("--nightly"):
        environment["SATCHEL_NIGHTLY"] = "1"
    done = subprocess.run(
        [str(PROGRAM), f"--gtest_filter={name}"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    print(done.stdout + done.stderr)
    assert done.returncode == 0
    assert re.search(r"\[  PASSED  \] 1 test", done.stdout)
