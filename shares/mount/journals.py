# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The journals of this machine's mounts: one folder for each mount that is served, or that has left
something that is not at home.

    ROOT/KEY.lock       held by the mount at that mountpoint
    ROOT/KEY-WORD/      the journal of one mount; `lock` in it is held as long as it is served
"""

from __future__ import annotations

import logging
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from satchel.errors import IntegrityError, SatchelError, UnavailableError, UnsupportedError
from satchel.files import claimed
from shares.node.hub.membership import Caller, ConversationOwner
from shares.node.journal.leftovers import JournalLeftovers, read_left
from shares.node.recovery import Recovery, RecoveryResult, put_aside

log = logging.getLogger(__name__)

DAMAGED = ".damaged"
LOCK = "lock"
"""In a journal."""


class HomeIsBehind(UnavailableError):
    """A mount has ended, and home lacks some of its writes."""


class Journals:
    """Those below one folder. home: a word for the home that they are for; a journal of a mount of
    another home's is left alone."""

    def __init__(self, root: Path, home: str = "") -> None:
        self.root, self.home = root, home

    def new(self, key: str) -> Path:
        """A folder for a new one. Raises OSError."""
        folder = self.root / f"{key}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True, mode=0o700)
        return folder

    def left(self, share: str | None = None) -> Iterator[JournalLeftovers]:
        """What mounts have left that are no more, the oldest first, of one share or of all. Nobody
        else touches one until the next is asked for. One that has nothing that waits is removed,
        one that cannot be read is put aside."""
        for folder in self._folders():
            with claimed(folder / LOCK) as ours:
                found = self._read(folder) if ours else None
                if found is None or found.note.home != self.home:
                    continue
                if not found.waits:
                    shutil.rmtree(folder, ignore_errors=True)
                elif share in (None, found.note.share):
                    yield found

    def recover(
        self,
        share: str,
        call: Callable[[ConversationOwner], Caller],
        wait: float | None,
        tell: Callable[[str], None],
    ) -> list[RecoveryResult]:
        """Send home what mounts of the share have left. tell: is told what became of it, line by
        line. What cannot be sent now stays where it is."""
        done = []
        for left in self.left(share):
            try:
                recovered = Recovery(left, call, wait).run()
            except SatchelError as error:
                tell(f"{waits(left)}: {error}")
                continue
            for line in lines(recovered):
                tell(line)
            done.append(recovered)
        return done

    def status(self) -> list[dict[str, Any]]:
        """Of each mount that is no more and has left something."""
        return [
            {
                "share": left.note.share,
                "mountpoint": left.note.mountpoint,
                "folder": str(left.folder),
                "files": left.count,
                "blocks": left.blocks,
                "bytes": left.size,
                "seconds": time.time() - left.folder.stat().st_mtime,
            }
            for left in self.left()
        ]

    def damaged(self) -> list[Path]:
        """Journals that could not be read, and were put aside."""
        return sorted(path for path in self.root.glob(f"*{DAMAGED}*") if path.is_dir())

    def _folders(self) -> list[Path]:
        found = [path for path in self.root.glob("*-*") if path.is_dir()]
        found = [path for path in found if DAMAGED not in path.name]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    def _read(self, folder: Path) -> JournalLeftovers | None:
        if not any(path.name != LOCK for path in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)  # its mount was killed before it began
            return None
        try:
            return read_left(folder)
        except (IntegrityError, UnsupportedError) as error:
            put_aside(folder, str(error))
            return None


def waits(left: JournalLeftovers) -> str:
    """How much, and where."""
    return (
        f"{left.count} files, {left.size} bytes that were written at {left.note.mountpoint} wait "
        f"for home in {left.folder}"
    )


def behind(left: JournalLeftovers) -> HomeIsBehind:
    """Of a mount that has just ended."""
    return HomeIsBehind(
        waits(left),
        why="home was not reached",
        fix=f"`satchel share recover {left.note.share}` sends them, and so does the next "
        f"`satchel mount {left.note.share} DIR`",
    )


def lines(recovered: RecoveryResult) -> Iterator[str]:
    """What became of a journal, for people."""
    where = recovered.note.mountpoint
    yield f"home has {recovered.files} files, {recovered.size} bytes that were written at {where}"
    for path in recovered.conflicts:
        name = path.decode(errors="replace")
        yield f"others have changed a file meanwhile: what was written at {where} is kept as {name}"
    for file, why in recovered.failed.items():
        yield f"{file} cannot be read, and its journal is put aside: {why}"
