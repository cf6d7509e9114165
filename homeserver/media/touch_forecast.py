# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks of a checkpoint a machine will most probably touch, the likeliest first.

    0  what every resume reads whole: the working set, the device state, the profile
    1  blocks that the profile trusts and the working set does not have
    2  blocks that the profile trusts less
    3  blocks that the working set has: their content goes with it, but a later checkpoint may be
       without one
    4  the other blocks of the same runs
    5  memory, then disks

Each chunk comes behind the pages that lead to it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from chunkstore import FANOUT, LeafPage, Store, leaves_of, split_refs
from images import Manifest
from replica import (
    RUN_BLOCKS,
    Profile,
    decode_profile,
    decode_working_set,
    directory_size,
)
from satchel.errors import SatchelError
from satchel.ids import ZERO_REF, ChunkRef

logger = logging.getLogger(__name__)

CHANCES = {3: 0.95, 2: 0.75, 1: 0.2}
"""How probable it is that a life touches a block, by the profile's trust in it; of the recorded
workloads, docs/prediction.md."""

UNFORESEEN = 0.05
"""Of what a life touches, the part that no life before it has touched."""

_HEAD = 16
_LIKELY = 2

Block = tuple[str, int]


@dataclass(frozen=True)
class TouchForecast:
    """Of one checkpoint. chances: of the blocks that its profile knows; streamed: those that its
    working set has. A checkpoint without a profile has none of either."""

    manifest: Manifest
    chances: Mapping[Block, float]
    streamed: frozenset[Block]

    @classmethod
    def of(cls, store: Store, manifest: Manifest) -> TouchForecast:
        """What is damaged, or of another version, is as if it were not there."""
        profile, streamed = Profile(), frozenset[Block]()
        try:
            if manifest.profile is not None:
                profile = decode_profile(store.read(manifest.profile), manifest.volumes)
            streamed = frozenset(_streamed(store, manifest))
        except SatchelError as error:
            logger.warning("less is known of %s: %s", manifest.service, error)
        return cls(manifest, dict(_chances(profile)), streamed)

    def classes(self, store: Store) -> tuple[Iterator[ChunkRef], ...]:
        """The references of classes 1 to 5, each in its order; a chunk may come again. Raises
        ChunkMissing where the store lacks a page."""
        fresh = [(b, chance) for b, chance in self.chances.items() if b not in self.streamed]
        blocks = (
            [block for block, chance in fresh if chance >= CHANCES[_LIKELY]],
            [block for block, chance in fresh if chance < CHANCES[_LIKELY]],
            sorted(self.streamed),
            _neighbours([*self.chances, *self.streamed]),
        )
        leaves = self._leaves(store, itertools.chain(*blocks))
        volumes = sorted(self.manifest.volumes, key=lambda name: (name != "ram", name))
        rest = (store.reachable([self.manifest.volumes[name]]) for name in volumes)
        return (
            *(_references(leaves, part) for part in blocks),
            (ref for part in rest for ref in split_refs(part)),
        )

    def reached(self, store: Store, kept: set[ChunkRef]) -> list[ChunkRef]:
        """The chunks that are found from the manifest on where only the kept ones are there."""
        found = dict.fromkeys(split_refs(store.reachable(self.manifest.first_roots())))
        for root in self.manifest.volumes.values():
            for leaf in leaves_of(store, root).values():
                if kept.issuperset(leaf.path):
                    found |= dict.fromkeys(leaf.path)
                    found |= dict.fromkeys(ref for ref in split_refs(leaf.refs) if ref in kept)
        return list(found)

    def touched_of(self, store: Store, kept: set[ChunkRef]) -> int | None:
        """How many blocks a life will probably touch that are neither in the working set nor among
        the kept chunks; None where no profile says it."""
        if not self.chances:
            return None
        leaves = self._leaves(store, self.chances)
        known = sum(
            chance
            for block, chance in self.chances.items()
            if block not in self.streamed and _lacks(leaves, block, kept)
        )
        all_of_it = set(split_refs(store.reachable(self.manifest.volumes.values())))
        left_out = len(all_of_it - kept) / max(1, len(all_of_it))
        return round(known + UNFORESEEN * left_out * sum(self.chances.values()))

    def _leaves(self, store: Store, blocks: Iterable[Block]) -> dict[str, dict[int, LeafPage]]:
        wanted: dict[str, set[int]] = {}
        for volume, number in blocks:
            wanted.setdefault(volume, set()).add(number // FANOUT)
        return {
            name: leaves_of(store, self.manifest.volumes[name], numbers)
            for name, numbers in wanted.items()
        }


def _streamed(store: Store, manifest: Manifest) -> Iterator[Block]:
    blob = manifest.working_set
    if blob is None:
        return
    size = directory_size(store.read(blob, 0, min(_HEAD, blob.size)))
    for frame in decode_working_set(store.read(blob, 0, size), blob.size, manifest.volumes):
        for run in frame.runs:
            yield from run.blocks()


def _chances(profile: Profile) -> Iterator[tuple[Block, float]]:
    """The more trusted first, in the order of first touch."""
    known: set[Block] = set()
    for trust in (_LIKELY, 1):
        for run in profile.order(least=trust):
            for block in run.blocks():
                if block not in known:
                    known.add(block)
                    context = profile.runs[block[0], block[1] // RUN_BLOCKS]
                    sure = next(t for t in CHANCES if block[1] % RUN_BLOCKS in context.blocks(t))
                    yield block, CHANCES[sure]


def _neighbours(blocks: list[Block]) -> list[Block]:
    known = set(blocks)
    runs = dict.fromkeys((volume, number // RUN_BLOCKS) for volume, number in blocks)
    near = ((v, run * RUN_BLOCKS + n) for v, run in runs for n in range(RUN_BLOCKS))
    return [block for block in near if block not in known]


def _references(
    leaves: Mapping[str, Mapping[int, LeafPage]], blocks: Iterable[Block]
) -> Iterator[ChunkRef]:
    for volume, number in blocks:
        leaf = leaves[volume].get(number // FANOUT)
        if leaf is not None and (ref := leaf.ref(number)) != ZERO_REF:
            yield from leaf.path
            yield ref


def _lacks(leaves: Mapping[str, Mapping[int, LeafPage]], block: Block, kept: set[ChunkRef]) -> bool:
    leaf = leaves[block[0]].get(block[1] // FANOUT)
    return leaf is not None and (ref := leaf.ref(block[1])) != ZERO_REF and ref not in kept
