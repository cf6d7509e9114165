# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""git: somebody works on a repository; a builder beside it follows each commit in a clone of its
own.

Threads: the person's (`git`, and `person` for edits) and `builder` with all that it runs.
Procedures of the person: `history` (log with statistics, blame, grep) and `pack` (`git gc`).
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
from pathlib import Path

from papers.ofs.uses.marks import main, procedure, role, think

SOURCE = Path(__file__).resolve().parent.parent
"""The folder of the first content: the programs of this bench."""

ROUNDS = 14
BEFORE = 12


def _git(folder: Path, *arguments: str) -> None:
    argv = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def prepare(folder: Path) -> None:
    """Some commits, and the clone."""
    dice = random.Random("git before")
    work = folder / "work"
    work.mkdir()
    for path in sorted(SOURCE.glob("*.py")):
        shutil.copy(path, work)
    _git(work, "init", "-q", "-b", "main")
    _git(work, "config", "gc.auto", "0")
    for number in range(BEFORE):
        _edit(work, dice)
        _git(work, "add", "-A")
        _git(work, "commit", "-q", "-m", f"before {number}")
    _git(folder, "clone", "-q", str(work), str(folder / "builder"))


def _edit(work: Path, dice: random.Random) -> None:
    """A few lines of a few files."""
    for path in dice.sample(sorted(work.glob("*.py")), 2):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        at = dice.randrange(len(lines))
        lines[at:at] = [f"# {dice.getrandbits(64):x}\n"] * dice.randint(1, 3)
        path.write_text("".join(lines), encoding="utf-8")


def use(folder: Path) -> None:
    role("person")
    dice = random.Random("git")
    done = threading.Event()
    builder = threading.Thread(target=_build, args=(folder, done))
    builder.start()
    work = folder / "work"
    for number in range(ROUNDS):
        think(dice, 2.0)
        _edit(work, dice)
        _git(work, "status", "--short")
        _git(work, "diff")
        think(dice, 1.0)
        _git(work, "commit", "-q", "-a", "-m", f"change {number}")
        if number % 4 == 2:
            with procedure("history"):
                _git(work, "log", "--stat", "-5")
                _git(work, "blame", "harness.py")
                _git(work, "grep", "-c", "figure")
        if number % 6 == 5:
            with procedure("pack"):
                _git(work, "gc", "-q")
    done.set()
    builder.join()


def _build(folder: Path, done: threading.Event) -> None:
    """Fetches, merges, looks at what there is and says so in a file that the person's side
    reads."""
    role("builder")
    clone = folder / "builder"
    while not done.wait(4.0):
        _git(clone, "pull", "-q", "--ff-only")
        _git(clone, "grep", "-c", "import")
        lines = sum(len(path.read_bytes().splitlines()) for path in clone.glob("*.py"))
        (folder / "built.txt").write_text(f"{lines} lines\n", encoding="utf-8")


if __name__ == "__main__":
    main(prepare, use)
