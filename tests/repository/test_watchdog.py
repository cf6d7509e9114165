# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A test whose own mount never answers fails, and the run goes on."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import requires
from tests.repository.tree import ROOT

HANGS = '''
import threading
import pytest
from shares.fuse import MountSession, SessionOptions
from tests.shares.fuse.passthrough import Passthrough
from tests.conftest import *

class Silent(Passthrough):
    """Does not answer before the test is over."""

    over = threading.Event()

    def attributes(self, file, handle):
        self.over.wait()

@pytest.fixture
def mounted(tmp_path):
    session = MountSession(Silent(tmp_path), tmp_path, SessionOptions())
    thread = threading.Thread(target=session.run)
    thread.start()
    yield tmp_path
    Silent.over.set()
    session.close()
    thread.join()

@pytest.mark.timeout(1)
def test_hangs(mounted):
    mounted.stat()

def test_next():
    pass
'''


@requires("fuse")
def test_a_test_whose_mount_never_answers_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    test = tmp_path / "test_hangs.py"
    test.write_text(HANGS)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    run = subprocess.run(
        [*argv, "--basetemp", tmp_path / "run", "-c", ROOT / "pyproject.toml", test],
        cwd=ROOT,
        env=os.environ | {"SATCHEL_WATCHDOG_GRACE": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "watchdog: a test of process" in run.stderr
    assert "1 failed, 1 passed in" in run.stdout
