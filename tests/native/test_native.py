# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's own tests, in C++: each of them is one here.

`scripts/bootstrap` builds them. `tests/native/_native/native_tests --gtest_filter=NAME` runs one by
hand; CrashStates are in `crash_states` beside it. What a failing crash state prints begins with the
settings that repeat it.
"""

import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "_native"
MANY_LIVES = "CrashStates.NoAcknowledgedByteIsLostAndNoneIsWrong"


def names(program: Path) -> list[str]:
    """As "Suite.Name", in the order of the program; without those that only others start."""
    argv = [str(program), "--gtest_list_tests"]
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


PROGRAMS = {
    name: FOLDER / file
    for file in ("native_tests", "crash_states")
    for name in names(FOLDER / file)
}


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


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != MANY_LIVES])
def test_native(name: str, request: pytest.FixtureRequest) -> None:
    run(PROGRAMS[name], name, request.config.getoption("--nightly"))


def test_no_power_cut_loses_or_falsifies_what_was_acknowledged(
    request: pytest.FixtureRequest,
) -> None:
    """5,000 states of the day's four lives, two with threads; nightly 2 million of a hundred."""
    assert MANY_LIVES in PROGRAMS
    argv = [str(ROOT / "scripts/crash-states")]
    if not request.config.getoption("--nightly"):
        first = datetime.now(UTC).date().toordinal()
        argv += ["--states", "5000", "--first", str(first), "--lives", "4"]
    subprocess.run(argv, check=True)
