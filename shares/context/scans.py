# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Scans of folders: a program opens the files of a folder one after the other, by name or in the
order of the listing, as `git status`, `grep -r` and `tar` do.

For example, a program opens `a`, `b` and `c` of a folder that has the files `a` to `z`. From the
third open on the folder is being scanned, and the next files are known. A scan may leave out files,
at most SKIP in a row.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from shares.protocol import FileId

FOLDERS = 256
"""Folders whose scans are remembered."""

SKIP = 2

BEGUN = 2
"""Opens in a row that make a scan, after the first."""


@dataclass
class _Order:
    """One order of a folder's files. at: place of the last open; run: how many came in order."""

    files: list[FileId]
    places: dict[FileId, int]
    at: int = -1
    run: int = 0


@dataclass
class _Folder:
    source: list[tuple[bytes, FileId]]
    listed: tuple[FileId, ...]
    orders: list[_Order] = field(default_factory=list)


class Scans:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._folders: OrderedDict[FileId, _Folder] = OrderedDict()

    def opened(
        self, folder: FileId, file: FileId, listed: list[tuple[bytes, FileId]], most: int
    ) -> list[FileId]:
        """A program has opened a file of the folder. listed: the folder's regular files as they are
        listed; not changed after that. The files that come next, at most `most`; none where there
        is no scan."""
        known = self._known(folder, listed)
        best: _Order | None = None
        for order in known.orders:
            place = order.places.get(file)
            if place is None:
                continue
            step = place - order.at
            if order.at >= 0 and 1 <= step <= 1 + SKIP:
                order.run += 1
            elif step != 0:
                order.run = 0
            order.at = place
            if order.run >= BEGUN and (best is None or order.run > best.run):
                best = order
        return best.files[best.at + 1 : best.at + 1 + most] if best is not None else []

    def _known(self, folder: FileId, listed: list[tuple[bytes, FileId]]) -> _Folder:
        known = self._folders.get(folder)
        if known is not None and known.source is listed:  # nothing has changed since the last open
            self._folders.move_to_end(folder)
            return known
        files = tuple(file for _, file in listed)
        if known is None or known.listed != files:
            by_name = [file for _, file in sorted(listed)]
            orders = [list(files)] if by_name == list(files) else [list(files), by_name]
            before = known.orders if known is not None else []
            known = _Folder(listed, files, [_order(order) for order in orders])
            for new, old in zip(known.orders, before, strict=False):
                last = old.files[old.at] if old.at >= 0 else None
                if last in new.places:
                    new.at, new.run = new.places[last], old.run
            self._folders[folder] = known
            if len(self._folders) > FOLDERS:
                self._folders.popitem(last=False)
        known.source = listed
        self._folders.move_to_end(folder)
        return known


def _order(files: list[FileId]) -> _Order:
    return _Order(files, {file: place for place, file in enumerate(files)})
