# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Fetches what a machine will touch next, as its service's access profile says.

One thread follows the machine's first touches in the block maps, which the plugin notes there: a
hit costs nothing more, and a block that was brought ahead leads on like one that was missed. What
comes after these in the profile and is not here is fetched, many runs with one request, below
every other priority; how much, `window` decides by how often that was right. It begins
when the working set has come, so that it takes nothing from that stream.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from chunkstore import BlockState, TableRoot
from replica import Profile, ProfileInvalid, Run, RunKey, Temperature, decode_profile, run_of
from satchel.errors import SatchelError
from surrogate.fetching import ChunksUnavailable, Fetcher, Span
from surrogate.prefetch.window import Block, ReadaheadWindow
from volumes import ReadAbandoned, Volume
from wire import Priority

logger = logging.getLogger(__name__)

TOUCH_POLL_SECONDS = 0.05
"""How soon a touch of a block that is here is noticed; a miss is at once."""

END_SECONDS = 2.0

PATIENCE_SECONDS = 60.0
"""Of what nothing comes for so long, the machine has missed what it needs by then."""

FOLLOW_RUNS = 64
"""How far is looked ahead."""

RECENT_RUNS = 8
"""The runs from which is looked ahead: those touched last."""


class Readahead:
    """Looks ahead for one replica; ends by itself with the fetcher. Thread-safe."""

    def __init__(
        self,
        fetcher: Fetcher,
        blob: TableRoot,
        phases: Callable[[], Iterable[str]] = tuple,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """blob: the profile, from anybody. phases: those that the machine has begun. ready: whether
        what goes before has come."""
        self._fetcher = fetcher
        self._blob = blob
        self._phases = phases
        self._ready = ready
        self._volumes: dict[str, Volume] = {}
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._begun: set[str] = set()
        self._told: dict[str, int] = {}
        self._asked: set[RunKey] = set()
        self._window = ReadaheadWindow()
        self._thread = threading.Thread(target=self._run, name="readahead", daemon=True)

    def start(self, volumes: Mapping[str, Volume]) -> None:
        """Begin, with the volumes of a machine that is about to be loaded."""
        self._volumes = dict(volumes)
        self._thread.start()

    def look(self) -> None:
        """The machine misses a block: look at once. Costs the miss nothing."""
        self._woken.set()

    def close(self) -> None:
        """End it. A closed fetcher ends a request that is under way."""
        self._closed.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            while not self._ready():
                if self._closed.wait(TOUCH_POLL_SECONDS):
                    return
            data = self._fetcher.read(self._blob, priority=Priority.BACKGROUND)
            roots = {name: volume.root for name, volume in self._volumes.items()}
            self._follow(decode_profile(data, roots))
        except ProfileInvalid as error:
            logger.warning("nothing is foreseen: %s", error)
        except ReadAbandoned:
            pass
        except SatchelError as error:
            logger.info("readahead ended early: %s", error)
        except Exception:
            logger.exception("readahead ended early")

    def _follow(self, profile: Profile) -> None:
        temperatures = profile.temperatures()
        for name, volume in self._volumes.items():
            self._told[name] = len(volume.map.touched())
        while not self._closed.is_set():
            self._woken.wait(TOUCH_POLL_SECONDS)
            self._woken.clear()
            touched = list(self._touched())
            self._window.touched(touched)
            last = dict.fromkeys(run_of(*block) for block in reversed(touched))
            keys = [*self._beginning(profile), *itertools.islice(last, RECENT_RUNS)]
            if keys and (spans := self._spans(profile, temperatures, keys)):
                try:
                    self._fetcher.ahead(spans, PATIENCE_SECONDS)
                except ChunksUnavailable as error:
                    logger.info("left to misses: %s", error)
                    self._asked -= {run_of(volume.name, first) for volume, first, _ in spans}
                self._woken.set()

    def _touched(self) -> Iterator[Block]:
        """What the machine has touched since this was asked last."""
        for name, volume in self._volumes.items():
            blocks = volume.map.touched(self._told[name])
            self._told[name] += len(blocks)
            yield from ((name, block) for block in blocks)

    def _beginning(self, profile: Profile) -> Iterator[RunKey]:
        """The runs of the phases that the machine has begun since this was asked last."""
        for phase in self._phases():
            if phase not in self._begun:
                self._begun.add(phase)
                yield from profile.phases.get(phase, ())

    def _spans(
        self,
        profile: Profile,
        temperatures: Mapping[RunKey, Temperature],
        keys: Iterable[RunKey],
    ) -> list[Span]:
        """What to fetch with one request: of these runs and those that follow."""
        step = self._window.step
        spans: list[Span] = []
        blocks: list[Block] = []
        first = list(keys)
        follow = itertools.islice(profile.follow(first), FOLLOW_RUNS)
        for key in itertools.chain(first, follow):
            if key in self._asked or key not in profile.runs:
                continue
            if temperatures[key] is Temperature.COLD and not step.cold:
                continue
            for run in self._absent(profile.spans(key, step.trust)):
                self._asked.add(key)
                spans.append((self._volumes[run.volume], run.first, run.count))
                blocks += run.blocks()
            if len(blocks) >= step.blocks:
                break
        if blocks:
            self._window.asked(blocks)
        return spans

    def _absent(self, runs: Iterable[Run]) -> Iterator[Run]:
        for run in runs:
            block_map = self._volumes[run.volume].map
            absent = block_map.counts(run.first, run.count)[BlockState.ABSENT]
            if absent == run.count:
                yield run
            elif absent:
                for _, block in run.blocks():
                    if block_map.entry(block).state is BlockState.ABSENT:
                        yield Run(run.volume, block, 1)
