# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application (papers/ofs/photo.py): a person takes photos and looks at results, and a
thread enhances them meanwhile.

Threads: `person` and `enhancer`. Procedures of the person: `sheet` (a page of all small pictures)
and `retouch` (one photo again, at once).
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

from papers.ofs.photo import enhance, sheet, take, waiting
from papers.ofs.uses.marks import main, procedure, role, think

BEFORE, PHOTOS = 4, 14


def prepare(folder: Path) -> None:
    for number in range(BEFORE):
        take(folder, number)
    for photo in waiting(folder):
        enhance(folder, photo)


def use(folder: Path) -> None:
    done = threading.Event()
    enhancer = threading.Thread(target=_enhance_all, args=(folder, done))
    enhancer.start()
    role("person")
    dice = random.Random("photo")
    for number in range(PHOTOS):
        think(dice, 2.5)
        take(folder, BEFORE + number)
        think(dice, 1.5)
        results = sorted((folder / "enhanced").glob("*.jpg"))
        dice.choice(results[-3:]).read_bytes()
        if number % 5 == 4:
            with procedure("sheet"):
                sheet(folder)
            (folder / "sheet.jpg").read_bytes()
        if number % 6 == 3:
            with procedure("retouch"):
                again = enhance(folder, folder / "inbox" / dice.choice(results).name)
            again.read_bytes()
    done.set()
    enhancer.join()


def _enhance_all(folder: Path, done: threading.Event) -> None:
    role("enhancer")
    while not done.wait(0.5):
        for photo in waiting(folder)[:1]:
            enhance(folder, photo)


if __name__ == "__main__":
    main(prepare, use)
