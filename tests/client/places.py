# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a client's journals are: on media, which may be pulled, and on its own disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.session.journal import Journal
from replay import Log
from satchel.ids import OperationNumber


class Places:
    """A folder on media, one on the client's disk, and journals there, closed in the end."""

    def __init__(self, folder: Path) -> None:
        self.media = folder / "media" / "log"
        self.media.parent.mkdir()
        self.spare = folder / "disk" / "log"
        self._open: list[Journal] = []

    def journal(self, *, media: bool = True) -> Journal:
        made = Journal(self.media if media else self.spare, self.spare)
        self._open.append(made)
        return made

    def logged(self, place: Path) -> list[int]:
        """The numbers in a log."""
        if not Log.exists(place):
            return []
        with Log.open(place, read_only=True) as log:
            return [op.number for op in log.read(OperationNumber(log.first - 1))]

    def pull(self) -> None:
        """Take the media out: the path is an empty folder, open files are of no use."""
        self.media.parent.rename(self.media.parent.with_name("pulled"))
        self.media.parent.mkdir()

    def put_back(self) -> None:
        shutil.rmtree(self.media.parent)
        self.media.parent.with_name("pulled").rename(self.media.parent)

    def close(self) -> None:
        for journal in self._open:
            journal.close()


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = Places(tmp_path)
    yield made
    made.close()
