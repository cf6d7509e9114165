# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Plain English: no folder has more odd phrases than it had, and commit subjects are short."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import tree

FIRST = "7def7d92"
"""Subjects of later commits have at most SUBJECT columns."""
SUBJECT = 72


def plain(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(tree.ROOT / "scripts" / "plain.py"), *arguments]
    return subprocess.run(argv, cwd=tree.ROOT, check=False, capture_output=True, text=True)


def test_no_folder_has_more_odd_phrases_than_it_had() -> None:
    done = plain("--check")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Whoever asks is told what it is.", 3),
        ("Of one link. Silent to begin with.", 1),
        ("The liveness of one link.", 0),
        ("It goes on behind the others, too.", 3),
    ],
)
def test_odd_phrases_are_found(tmp_path: Path, text: str, phrases: int) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert len(plain(str(page)).stdout.splitlines()) == phrases


def test_commit_subjects_are_short() -> None:
    argv = ["git", "log", "--no-merges", "--format=%s", f"{FIRST}..HEAD"]
    log = subprocess.run(argv, cwd=tree.ROOT, check=False, capture_output=True, text=True)
    if log.returncode != 0:
        return  # a clone without history
    assert [line for line in log.stdout.splitlines() if len(line) > SUBJECT] == []
