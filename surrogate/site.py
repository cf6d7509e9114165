# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What this host has besides what clients forward: media plugged into it, and peers of its site.

Both serve every replica here. That gives little away: a chunk is had only by who names it with its
SHA-256, and what comes is verified. A peer answers on a Unix socket which this host reaches over an
OpenSSH link of its own, or which an operator forwards; the socket offers chunks and nothing else.
In return this host offers its cache to its peers. A medium is read by a process of its own that can
do nothing else (media/apart.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from flask import Blueprint, Flask

from chunkstore import Store
from satchel.errors import SatchelError
from surrogate.cache.chunk_app import chunk_app, chunks_of
from surrogate.fetching import Exchange, Supplier
from surrogate.fetching.sources import PEER, MediaSource, SocketSource
from surrogate.settings import SurrogateSettings
from surrogate.tenants.readable_chunks import ReadableChunks
from wire import Lane, Links, Peer

logger = logging.getLogger(__name__)

MEDIA_SCAN_SECONDS = 2.0
"""How soon a medium that is plugged in is noticed."""

DEPTH = 2
"""How far below a folder of the settings media are looked for: USER/LABEL, as desktops mount."""

TENANTS_READERS = 2
"""How many of a tenant's requests for chunks are answered at once."""


class Site:
    """The sources of a host, in an exchange. Thread-safe; `close` ends its thread."""

    def __init__(self, settings: SurrogateSettings, exchange: Exchange) -> None:
        """Begin to look for media; those that are there take part on return, as do the peers."""
        self._settings = settings
        self._exchange = exchange
        self._lock = threading.Lock()
        self._media: dict[Path, Supplier] = {}
        self._refused: dict[Path, str] = {}
        self._links = Links(settings.run / "l")
        self._peers = [
            Supplier(SocketSource(f"peer-{name}", self._reach(name, peer), PEER), shared=True)
            for name, peer in settings.peers.items()
        ]
        for peer in self._peers:
            exchange.join(peer)
        self._closing = threading.Event()
        self.look()
        self._thread = threading.Thread(target=self._watch, name="site", daemon=True)
        if settings.media:
            self._thread.start()

    def names(self) -> list[str]:
        """Of the sources that take part now."""
        with self._lock:
            return [supplier.source.name for supplier in [*self._media.values(), *self._peers]]

    def look(self) -> None:
        """Have those media take part that are mounted now, and no others."""
        found = dict.fromkeys(_mounted(self._settings.media))
        with self._lock:
            gone = {root: self._media.pop(root) for root in [*self._media] if root not in found}
            self._refused = {root: why for root, why in self._refused.items() if root in found}
            new = [root for root in found if root not in self._media]
        for root, supplier in gone.items():
            logger.info("the medium at %s is gone", root)
            self._end(supplier)
        for root in new:
            self._begin(root)

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(MEDIA_SCAN_SECONDS)
        with self._lock:
            ended = [*self._media.values(), *self._peers]
            self._media.clear()
            self._peers.clear()
        for supplier in ended:
            self._end(supplier)
        self._links.close()

    def _reach(self, name: str, peer: Peer) -> Path:
        """Where a peer's chunks are on this host, as soon as they can be had."""
        if not peer.destination:
            return Path(peer.socket)
        link = self._links.get(name, peer, Lane.BULK, stream="peers")
        link.want()
        return link.socket

    def _watch(self) -> None:
        while not self._closing.wait(MEDIA_SCAN_SECONDS):
            self.look()

    def _begin(self, root: Path) -> None:
        """Without the lock: a bad stick is read for long, and others ask what is here."""
        try:
            media = MediaSource(root)
        except (SatchelError, OSError) as error:
            if self._refused.get(root) != str(error):
                logger.warning("the medium at %s is of no use: %s", root, error)
            self._refused[root] = str(error)
            return
        with self._lock:
            known = {supplier.source.name for supplier in self._media.values()}
            wanted = media.name not in known and not self._closing.is_set()
            if wanted:
                logger.info("medium %s at %s: %d chunks", media.name, root, media.chunks)
                supplier = self._media[root] = Supplier(media, shared=True)
                self._exchange.join(supplier)
        if not wanted:
            media.close()  # one medium at two places

    def _end(self, supplier: Supplier) -> None:
        self._exchange.part(supplier)
        supplier.source.close()


def peer_app(store: Store) -> Flask:
    """What peers reach: chunks of the cache, and nothing else."""
    return chunk_app("satchel-peer", store.records)


def brought_routes(brought: ReadableChunks) -> Blueprint:
    """Chunks of the cache, for a tenant: as far as they are its own."""
    return chunks_of(brought.records, brought.records_below, TENANTS_READERS)


def _mounted(folders: Iterable[Path]) -> Iterable[Path]:
    for folder in folders:
        for depth in range(DEPTH + 1):
            marks = folder.glob("*/" * depth + "satchel/media.json")
            try:
                yield from sorted(mark.parents[1] for mark in marks)
            except OSError as error:
                logger.debug("%s: %s", folder, error)
