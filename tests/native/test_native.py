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
    """As "Suite.Name", in the order of the program; without those that only others start."""
    argv = [str(PROGRAM), "--gtest_list_tests"]
    listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = []
    suite = ""
    for line in listing.splitlines()[1:]:
        word = line.split("#")[0].rstrip()
        if not word.startswith(" "):
            suite = word
        elif "DISABLED_" not in word:
            found.append(suite + word.strip())
    return found


NAMES = names()


def run(program: Path, name: str, nightly: bool) -> None:
    """One test of `program` passes."""
    environment = dict(os.environ)
    if nightly:
        environment["SATCHEL_NIGHTLY"] = "1"
    done = subprocess.run(
        [str(program), f"--gtest_filter={name}"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    print(done.stdout + done.stderr)
    assert done.returncode == 0
    assert re.search(r"\[  PASSED  \] 1 test", done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_native(name: str, request: pytest.FixtureRequest) -> None:
    run(PROGRAM, name, request.config.getoption("--nightly"))
