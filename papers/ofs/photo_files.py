# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application's reads and writes without its processing: what files and links cost.

    python -m papers.ofs.photo_files take PREPARED FOLDER     inbox/, as the camera had it
    python -m papers.ofs.photo_files enhance PREPARED FOLDER  each photo as soon as it is whole
    python -m papers.ofs.photo_files look PREPARED FOLDER     read each result when it is told of
    python -m papers.ofs.photo_files --reopen look ...        done.txt is opened for each read

PREPARED is a folder in which papers.ofs.photo has done all of it. Every file has the content
that it has there; steps are removed when their photo is done. Who reads something else than is
there has read too early, and reads again. Each command prints how often, behind `ready` if
--wait is before all words; then it begins when it is sent a line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

DONE = "done.txt"
PAUSE_SECONDS = 0.002
INBOX, WORK, RESULTS = "inbox", "work", ("enhanced", "small")


def photos(prepared: Path) -> list[str]:
    """Names, in the order in which they were taken."""
    return [path.name for path in sorted((prepared / INBOX).glob("*.jpg"))]


def steps(prepared: Path, name: str) -> list[Path]:
    """Files of a photo in work/, in the order in which they were written."""
    found = (prepared / WORK).glob(f"{Path(name).stem}.*")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def take(prepared: Path, folder: Path) -> int:
    (folder / INBOX).mkdir()
    for name in photos(prepared):
        (folder / INBOX / name).write_bytes((prepared / INBOX / name).read_bytes())
    return 0


def enhance(prepared: Path, folder: Path) -> int:
    """How often a photo was not yet what was taken."""
    for name in (WORK, *RESULTS):
        (folder / name).mkdir(exist_ok=True)
    early = 0
    for name in photos(prepared):
        early += _await_whole(prepared, folder, f"{INBOX}/{name}")
        made = steps(prepared, name)
        for step in made:
            target = folder / WORK / step.name
            target.write_bytes(step.read_bytes())
            target.read_bytes()
        for result in RESULTS:
            (folder / result / name).write_bytes((prepared / result / name).read_bytes())
        for step in made:
            (folder / WORK / step.name).unlink()
        with (folder / DONE).open("a", encoding="utf-8") as done:
            done.write(f"{name}\n")
    return early


def look(prepared: Path, folder: Path, *, reopen: bool) -> int:
    """How often a result that was told of was not yet what was made."""
    count, seen, early, text = len(photos(prepared)), 0, 0, b""
    with _lines(folder / DONE, reopen=reopen) as lines:
        while seen < count:
            text += lines(len(text))
            names = text.decode().split("\n")[:-1]
            for name in names[seen:]:
                for result in RESULTS:
                    early += _await_whole(prepared, folder, f"{result}/{name}")
            if len(names) == seen:
                time.sleep(PAUSE_SECONDS)
            seen = len(names)
    return early


def _await_whole(prepared: Path, folder: Path, name: str) -> int:
    wanted, early = (prepared / name).read_bytes(), 0
    while _content(folder / name) != wanted:
        early += 1
        time.sleep(PAUSE_SECONDS)
    return early


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


@contextmanager
def _lines(path: Path, *, reopen: bool) -> Iterator[Callable[[int], bytes]]:
    """What reads the file from an offset on, which is where it ended before."""
    if reopen:
        yield lambda offset: _content(path)[offset:]
        return
    with _opened(path) as file:
        yield lambda _: file.read()


def _opened(path: Path) -> BinaryIO:
    while True:
        try:
            return path.open("rb", buffering=0)
        except FileNotFoundError:
            time.sleep(PAUSE_SECONDS)


def program(words: list[str]) -> None:
    """The command line."""
    if words[0] == "--wait":
        words = words[1:]
        print("ready", flush=True)
        sys.stdin.readline()
    if reopen := words[0] == "--reopen":
        words = words[1:]
    what, prepared, folder = words[0], Path(words[1]), Path(words[2])
    if what == "look":
        print(look(prepared, folder, reopen=reopen), flush=True)
    else:
        print({"take": take, "enhance": enhance}[what](prepared, folder), flush=True)


if __name__ == "__main__":
    program(sys.argv[1:])

__all__ = ["enhance", "look", "photos", "program", "steps", "take"]
