# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What guards what in chunkstore/ is known to clang, and a lock that is left out is noticed."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.needs import requires
from tests.repository import tree

CORE = tree.ROOT / "chunkstore" / "core"
BARE = re.compile(
    r"std::(mutex|shared_mutex|condition_variable|lock_guard|unique_lock|shared_lock)"
)


def test_the_core_has_no_lock_that_clang_does_not_know() -> None:
    files = [path for path in CORE.glob("*/*") if path.name != "mutex.h"]
    assert len(files) > 80
    assert [path.name for path in files if BARE.search(path.read_text())] == []


@requires("clang++")
@pytest.mark.parametrize(
    ("name", "lock"),
    [
        ("store/roots_in_use.cc", "  const MutexLock lock(&mutex_);\n"),
        ("packs/pack_reader.cc", "    const SharedLock lock(&mutex_);\n"),
        ("store/store.cc", "  const SharedLock gate(&gate_);\n"),
    ],
)
def test_a_lock_that_is_left_out_is_noticed(tmp_path: Path, name: str, lock: str) -> None:
    text = (CORE / name).read_text()
    assert lock in text
    without = tmp_path / Path(name).name
    without.write_text(text.replace(lock, "", 1))
    argv = [str(tree.ROOT / "scripts" / "locks"), str(without)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "requires holding" in done.stderr
