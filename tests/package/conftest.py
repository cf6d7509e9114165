# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of the packages share."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.package.clean_root import SECONDS
from tests.repository import tree

MADE = "SATCHEL_PACKAGES_MADE"
"""Set in the environment: `build/package` has the packages of this tree."""


@pytest.fixture(scope="session")
def packages(testrun_uid: str) -> list[Path]:
    """The four debs, made once in a run; or before, where the environment says so."""
    build = tree.ROOT / "build"
    build.mkdir(exist_ok=True)
    run = build / "package" / "test-run"
    with (build / ".package.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two files of tests may run at a time
        if MADE not in os.environ and not (run.exists() and run.read_text() == testrun_uid):
            subprocess.run([str(tree.ROOT / "scripts" / "package")], check=True, timeout=SECONDS)
            run.write_text(testrun_uid)
    debs = [path for path in (build / "package").glob("*.deb") if "-dbgsym_" not in path.name]
    assert len(debs) == 4
    return sorted(debs)
