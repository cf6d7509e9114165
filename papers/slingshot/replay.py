# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A machine that resumes, without the machine: a trace's touches, each as long after the answer to
the one before as the real machine ran in between, resolved over the links of a world."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chunkstore import BlockState, Foresight, Store, TableRoot
from papers.workloads.recording import Touch
from surrogate import Fetcher, PendingBlock, Prefetcher, Readahead, forwarded
from volumes import Volume, create_volume

READAHEAD_BLOCKS = 32

LEAST_SLEEP = 0.001
"""A sleep is a little too long each time: gaps are saved up to this many seconds."""


KNOWN = "known, not streamed"
STRANGE = "never touched before"
"""Causes of stalls, beside those of what is streamed."""


@dataclass
class ResumeResult:
    """seconds: until the first response; stalls: of each touch that had to wait; causes: the same
    added up, by cause; foresight: at the end."""

    seconds: float = 0.0
    stalls: list[float] = field(default_factory=list)
    causes: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    foresight: Foresight = field(default_factory=Foresight)

    @property
    def stalled(self) -> float:
        return sum(self.stalls)

    @property
    def longest(self) -> float:
        return max(self.stalls, default=0.0)


@dataclass(frozen=True)
class Resume:
    """What is resumed, in which order it is touched, and from where it comes, nearest first.

    profile: the one by which the surrogate looks ahead. response: the touch after which seconds and
    stalls do not count; by default the last one. known: blocks that earlier lives touched
    """

    roots: Mapping[str, TableRoot]
    working_set: TableRoot
    touches: Sequence[Touch]
    sockets: Mapping[str, Path]
    profile: TableRoot | None = None
    response: int | None = None
    known: Collection[tuple[str, int]] = ()

    def replay(self, folder: Path, *, stream: bool) -> ResumeResult:
        """Resume with an empty cache. stream: fetch the working set ahead."""
        with (
            tempfile.TemporaryDirectory(dir=folder) as name,
            _empty(Path(name) / "cache") as cache,
        ):
            sources = forwarded(self.sockets.items())
            fetcher = Fetcher(cache, sources, READAHEAD_BLOCKS)
            volumes = {n: create_volume(Path(name), n, root) for n, root in self.roots.items()}
            ahead = Prefetcher(cache, fetcher, self.working_set)
            further = self._readahead(fetcher, ahead) if stream else None
            resolve = ahead.resolve if stream else fetcher.resolve
            try:
                if stream:
                    ahead.start(volumes)
                if further:
                    further.start(volumes)
                found = self._touch(volumes, resolve, further, ahead)
                found.foresight = Foresight.of(volume.map for volume in volumes.values())
                return found
            finally:
                fetcher.close()
                if further:
                    further.close()
                ahead.join()
                for volume in volumes.values():
                    volume.remove()

    def _readahead(self, fetcher: Fetcher, ahead: Prefetcher) -> Readahead | None:
        if self.profile is None:
            return None
        return Readahead(fetcher, self.profile, ready=lambda: ahead.remaining == 0)

    def _touch(
        self,
        volumes: dict[str, Volume],
        resolve: Callable[[Volume, int, int], None],
        further: Readahead | None,
        ahead: Prefetcher,
    ) -> ResumeResult:
        found = ResumeResult()
        last = len(self.touches) if self.response is None else self.response
        began = due = time.monotonic()
        for number, touch in enumerate(self.touches):
            due += touch.gap
            if (early := due - time.monotonic()) > LEAST_SLEEP:
                time.sleep(early)
            volume = volumes[touch.volume]
            volume.map.touch(touch.first, touch.count)
            blocks = range(touch.first, touch.first + touch.count)
            absent = [b for b in blocks if volume.map.entry(b).state is BlockState.ABSENT]
            if absent:
                cause = self._cause(ahead, [(touch.volume, block) for block in absent])
                missed = time.monotonic()
                if further:
                    further.look()
                resolve(volume, touch.first, touch.count)
                stalled = time.monotonic() - missed
                due += stalled
                if number < last:
                    found.stalls.append(stalled)
                    found.causes[cause] += stalled
            if number == last - 1:
                found.seconds = time.monotonic() - began
        return found

    def _cause(self, ahead: Prefetcher, blocks: Sequence[tuple[str, int]]) -> str:
        """Why the machine waits for them: the first of these that holds of any."""
        stages = {ahead.coming(block) for block in blocks}
        for stage in PendingBlock:
            if stage in stages:
                return stage.value
        return KNOWN if any(block in self.known for block in blocks) else STRANGE


def _empty(path: Path) -> Store:
    """A cache as surrogates open it: nothing in it is compressed."""
    Store.create(path).close()
    return Store.open(path, level=0)
