# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of a daemon that is no root's: the same program gets nothing there either."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.needs import requires
from tests.sandbox.site import GUEST_MEMORY, MIB

PACKAGES = ("sandbox", "satchel", "tests/sandbox")
FILES = ("tests/__init__.py", "tests/waiting.py")
"""All that makes a cell, and the attack on it."""

USER = 54321
"""Whom nobody knows: in no group, without a home."""

DATA_LIMIT = 1 << 30


@requires("root", "bwrap", "userns", "setpriv")
def test_an_ordinary_users_cells_keep_everything(short_path: Path) -> None:
    """His machines have his own user, as his key does: outside of a cell they read it. The tree may
    lie where that user cannot go, so he gets a copy of what is needed."""
    tree, home = short_path / "tree", short_path / "home"
    for name in PACKAGES:
        shutil.copytree(name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(name, tree / name)
    subprocess.run(["chmod", "-R", "a+rX", str(short_path)], check=True)
    home.mkdir(mode=0o700)
    os.chown(home, USER, USER)
    who = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    command = [*who, "/usr/bin/python3", "-B", "-m", "tests.sandbox.as_user", str(home)]
    done = subprocess.run(
        command,
        cwd=tree,
        env={"PATH": "/usr/bin:/bin", "SATCHEL_TEST_RUN": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["user"], found["reason"]) == (USER, "")
    assert found["machine"] == []
    assert found["helper"] == [f"writes {found['own']}"]
    assert found["survey"] == [found["own"]]
    assert {f"reads {found['secret']}", "sees processes", "has the environment"} <= set(
        found["host"]
    )
    limit = DATA_LIMIT if "memory by rlimits" in found["limits"] else GUEST_MEMORY + (320 << 20)
    assert 0 < found["memory MiB"] * MIB <= limit
    assert found["file MiB"] <= 3
    assert 0 < found["forks"] <= 512
    assert found["left"] == []
