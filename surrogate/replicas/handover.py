# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A machine frozen where it runs, so that it can go on elsewhere; here it goes on meanwhile.

What is said is names: those of the tables, which know by now what the machine has written, and of
the device state. The blocks that differ from the owner's checkpoint are compressed together, in the
form of a working set, so that the other surrogate streams them ahead of the machine. They have no
names there, as no cache elsewhere has them. All others it has from where it has a checkpoint's,
those first that the machine has touched here. Of the tables' pages what has changed in them is
told, so that it makes them of the checkpoint's.

A machine stands still once: what it has written to its memory is flushed before, or the maps would
tell of it in the freeze only, and the pages above that are not here would have to be fetched then.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from chunkstore import (
    PAGE_CHANGES_LIMIT,
    ChunkMissing,
    PageChanges,
    Store,
    difference,
    encode_page_changes,
    one_after_other,
)
from images import Manifest
from replica import (
    HASTY_PRESET,
    WORKING_SET_LIMIT,
    MachineSnapshot,
    Replica,
    Run,
    WorkingSetVersion,
    encode_working_set,
)
from satchel.errors import StateError
from satchel.ids import BLOCK_SIZE, ReplicaId
from surrogate.fetching import Fetcher
from surrogate.prefetch.table_pages import written
from volumes import Volume
from wire import CreateReplica, HandoverState, Priority, runs_of

logger = logging.getLogger(__name__)

TRIES = 5
"""A machine writes on while the pages above what it has written are fetched."""


class TooMuchChanged(StateError):
    """A machine has changed more blocks since its owner's checkpoint than a hand-over can list."""

    def __init__(self, replica: ReplicaId, blocks: int) -> None:
        super().__init__(
            f"cannot hand replica {replica} over",
            why=f"{blocks} blocks differ from the checkpoint, more than {WORKING_SET_LIMIT}",
            fix="move it with `satchel move --route fresh`, from a checkpoint that home takes now",
        )


def hand_over(
    manifest: Manifest,
    replica: Replica,
    store: Store,
    fetcher: Fetcher,
    volumes: Sequence[Volume],
    known: Collection[tuple[str, int]],
    known_pages: PageChanges | None,
    freezing: Callable[[], None],
) -> HandoverState:
    """Freeze a replica that was resumed from `manifest`. known: blocks that differed from the
    owner's checkpoint when it was; known_pages: pages, None where that is not known. freezing: is
    called right before a freeze, after which the machine does not go on from `manifest` any more.
    Raises as a replica's checkpoint and a fetch do, and TooMuchChanged."""
    stood_still = replica.stood_still
    frozen = freeze(replica, fetcher, volumes, freezing)
    changed = set(known)
    pages: PageChanges = {}
    for name, root in frozen.volumes.items():
        found = difference(store, manifest.volumes[name], root)
        changed.update((name, number) for number in found.blocks)
        pages |= found.pages
    if len(changed) > WORKING_SET_LIMIT:
        raise TooMuchChanged(replica.id, len(changed))
    for name, root in frozen.volumes.items():
        fetcher.pages(root, (block for which, block in changed if which == name), Priority.DEMAND)

    def content(run: Run) -> bytes:
        root = frozen.volumes[run.volume]
        return fetcher.read(root, run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)

    runs = [Run(name, number, 1) for name, number in sorted(changed)]
    told = encode_working_set(
        [runs], content, preset=HASTY_PRESET, version=WorkingSetVersion.NAMELESS
    )
    blob = store.import_bytes(told)
    logger.info("replica %s handed over: %d blocks, %d bytes", replica.id, len(runs), blob.size)
    return HandoverState(
        operation=frozen.operation,
        device_state=frozen.device_state.to_json(),
        volumes={name: root.to_json() for name, root in frozen.volumes.items()},
        changed=blob.to_json(),
        pages=_told(store, frozen, pages, known_pages),
        paused_seconds=replica.stood_still - stood_still,
        touched={volume.name: runs_of(volume.map.touched()) for volume in volumes},
    )


def taken_over(request: CreateReplica, handed: HandoverState) -> CreateReplica:
    """The request from which a surrogate that is started again takes a frozen replica over."""
    fields = {"operation", "device_state", "volumes"}
    manifest = request.manifest | {k: v for k, v in handed.to_json().items() if k in fields}
    return dataclasses.replace(
        request,
        manifest=manifest,
        changed=handed.changed,
        pages=handed.pages,
        touched=handed.touched,
    )


def _told(
    store: Store, frozen: MachineSnapshot, pages: PageChanges, before: PageChanges | None
) -> dict[str, Any] | None:
    """The blob of what has changed in pages since the owner's checkpoint; None where that is not
    known, or too much."""
    if before is None:
        return None
    data = encode_page_changes(one_after_other(before, pages), frozen.volumes)
    if len(data) > PAGE_CHANGES_LIMIT:
        return None
    logger.info("changes of pages: %d bytes", len(data))
    return store.import_bytes(data).to_json()


def freeze(
    replica: Replica,
    fetcher: Fetcher,
    volumes: Sequence[Volume],
    freezing: Callable[[], None],
    *,
    hold: bool = False,
) -> MachineSnapshot:
    """Freeze a replica that has the pages that this needs. freezing: as `hand_over` has it; hold:
    the machine does not go on. Raises as a replica's checkpoint and a fetch do."""
    for tries in range(TRIES, 0, -1):
        _prepare(replica, fetcher, volumes)
        freezing()
        try:
            return replica.checkpoint(hold=hold)
        except ChunkMissing:
            if tries == 1:
                raise
    raise AssertionError


def _prepare(replica: Replica, fetcher: Fetcher, volumes: Sequence[Volume]) -> None:
    """Have the pages here that a commit is going to need, and little left for it to flush. Who
    hands over is waited for, so they go before what is fetched ahead."""
    for _ in range(TRIES):
        replica.flush()
        lacking = [fetcher.pages(v.root, written(v), Priority.DEMAND) for v in volumes]
        if not any(lacking):
            return
