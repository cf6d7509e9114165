# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which volumes and checkpoints of a store are hurt: they lack chunks, or cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chunkstore import Catalog, ChunkInvalid, ChunkMissing, Store, TableRoot, VerifyReport
from homeserver.services.records import ServiceRegistry
from satchel.errors import SatchelError
from satchel.ids import CHUNK_REF_SIZE


@dataclass(frozen=True)
class RequiredObject:
    """A named thing that has to be whole. kind: `volume` or `checkpoint`."""

    kind: str
    name: str
    version: str
    roots: tuple[TableRoot, ...]


def needs_of(store: Store) -> tuple[list[RequiredObject], list[dict[str, Any]]]:
    """Everything that has a name in a store and in the home beside it; and what is hurt because
    its name or its manifest cannot be read."""
    volumes, damaged = Catalog(store).survey()
    needs = [RequiredObject("volume", e.name, e.version, (e.root,)) for e in volumes]
    hurt = [
        _hurt("volume", *label.partition("@")[::2], str(error)) for label, error in damaged.items()
    ]
    shelf = ServiceRegistry.beside(store.path)
    for name in shelf.names():
        checkpoints = shelf.checkpoints(name)
        for checkpoint in checkpoints.ids():
            try:
                roots = tuple(checkpoints.get(checkpoint).roots())
                needs.append(RequiredObject("checkpoint", name, checkpoint, roots))
            except SatchelError as error:
                if checkpoint in checkpoints.ids():  # else it has just been forgotten
                    hurt.append(_hurt("checkpoint", name, checkpoint, str(error)))
    return needs, hurt


def hurt_in(store: Store, report: VerifyReport) -> list[dict[str, Any]]:
    """Which volumes and checkpoints lack chunks, or cannot be read, when `verify` has told
    `report`: kind, name, version, and why."""
    count_lost(store, report)
    needs, hurt = needs_of(store)
    return hurt + lacking(store, needs)


def hurt_text(hurt: Sequence[dict[str, Any]]) -> str:
    """The same in one line."""
    return "; ".join(f"{h['kind']} {h['name']}@{h['version']}: {h['why']}" for h in hurt)


def count_lost(store: Store, report: VerifyReport) -> None:
    """Have the store count what is lost as missing."""
    for ref in report.lost:
        if not store.has(ref)[0]:
            continue  # its place is gone; to forget each in the index costs a sync
        with suppress(ChunkInvalid, ChunkMissing):
            store.get(ref)


def lacking(store: Store, needs: Sequence[RequiredObject]) -> list[dict[str, Any]]:
    """Which of these lack chunks, and how many that are known of; behind a lost page there may be
    more."""
    return [
        _hurt(need.kind, need.name, need.version, f"{len(lost) // CHUNK_REF_SIZE} chunks are lost")
        for need in needs
        if (lost := store.missing(*need.roots))
    ]


def _hurt(kind: str, name: str, version: str, why: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "version": version, "why": why}
