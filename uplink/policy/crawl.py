# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that ask for a whole tree of folders, told from people (StoArranger, section V-B).

Both of the paper's observations must hold for the requests of one program for folders of one
account: all are below the first one and in an order, depth first or breadth first; and they come
at intervals that are steadier than a person's. The paper gives no numbers; ours are below.

A program that has crawled a tree is expected to do so again when it asks for its root. A wrong
guess costs one request and nothing else: what is answered is what the service says.
"""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

LEAST_REQUESTS = 4
MOST_VARIATION = 0.3
"""Of the intervals: standard deviation by mean."""

MACHINE_SECONDS = 0.25
"""Mean interval below which it is no person, however much the intervals differ: on a busy machine
those of a fast program differ by more than they last."""

PERSON_SECONDS, LEAST_SLOW = 1.0, 6
"""A mean interval from which on it may be a person, and the least requests then: four at even
intervals happen by chance too often."""

PAUSE_SECONDS = 30.0
"""After so long without a request the next one begins anew."""

PROGRAMS = 256
"""That are watched at a time."""


@dataclass(frozen=True)
class Crawl:
    """root: of the tree; seconds: since its first request"""

    root: str
    seconds: float


@dataclass
class _Run:
    """Requests that may be a crawl's. depth, breadth: whether the order is still such a one"""

    folders: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    depth: bool = True
    breadth: bool = True


class Crawls:
    """See the module. Folders are paths without a slash at the end. One thread at a time."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Hashable, _Run] = OrderedDict()
        self._roots: OrderedDict[tuple[Hashable, str], None] = OrderedDict()

    def asked(
        self, program: Hashable, folder: str, now: float, kind: Hashable = None
    ) -> Crawl | None:
        """A program asks what is in a folder. Its crawl, or None where it is none.

        program: one that runs; kind: what programs have in common of which one crawls as another
        """
        run = self._runs.pop(program, None)
        if run is None or now - run.times[-1] > PAUSE_SECONDS or not _continues(run, folder):
            run = _Run()
        self._runs[program] = run
        if run.folders:
            run.depth = run.depth and _depth_first(run.folders, folder)
            run.breadth = run.breadth and _breadth_first(run.folders, folder)
        run.folders.append(folder)
        run.times.append(now)
        if len(self._runs) > PROGRAMS:
            self._runs.popitem(last=False)
        root = (kind, run.folders[0])
        if _steady(run):
            self._roots[root] = None
            if len(self._roots) > PROGRAMS:
                self._roots.popitem(last=False)
        elif root not in self._roots or kind is None:
            return None
        return Crawl(run.folders[0], now - run.times[0])


def _continues(run: _Run, folder: str) -> bool:
    """Below the same root, and not seen before."""
    return folder.startswith(run.folders[0] + "/") and folder not in run.folders


def _depth_first(before: list[str], folder: str) -> bool:
    """The parent is the last folder or one above it."""
    return (before[-1] + "/").startswith(_parent(folder) + "/")


def _breadth_first(before: list[str], folder: str) -> bool:
    """The parent was asked for, and not before the parent of the last one."""
    parent = _parent(folder)
    if parent not in before:
        return False
    last = _parent(before[-1])
    return last not in before or before.index(last) <= before.index(parent)


def _steady(run: _Run) -> bool:
    if len(run.folders) < LEAST_REQUESTS or not (run.depth or run.breadth):
        return False
    gaps = [after - before for before, after in zip(run.times, run.times[1:], strict=False)]
    mean = statistics.fmean(gaps)
    if mean >= PERSON_SECONDS and len(run.folders) < LEAST_SLOW:
        return False
    return mean <= MACHINE_SECONDS or statistics.pstdev(gaps) / mean <= MOST_VARIATION


def _parent(folder: str) -> str:
    return folder.rpartition("/")[0]
