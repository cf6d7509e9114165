# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Repair: what a store has lost is taken from whoever has it.

A chunk is lost when its record is not whole any more, or when a volume or a checkpoint names it and
the store has it not. Another store, a medium, a home or a surrogate may have it; each is asked in
turn, and believed nothing: the store checks both hashes of what it gives. A lost page of a table
hides what is below it, so this goes on until nobody has anything more to give.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISSOCK
from typing import Any
from urllib.parse import urlsplit

from chunkstore import ChunkInvalid, Store, split_refs
from homeserver.store.hurt import count_lost, lacking, needs_of
from media import Media, SealKeys, find_media
from satchel.errors import NotFoundError, SatchelError, UsageError
from satchel.ids import BLOCK_SIZE, ChunkRef, chunk_id
from satchel.paths import config_dir
from satchel.progress import Progress, silent
from wire import API, BATCH_LIMIT, ChunkClient, HttpClient, SshHost, SshLink

logger = logging.getLogger(__name__)

SSH_PORT = 22

Fetch = Callable[[bytes], bytes]
"""References in, the pack records of those that the source has out."""


@dataclass(frozen=True)
class RepairSource:
    """Somebody who may have what is lost. label: as the user named it."""

    label: str
    fetch: Fetch


@dataclass
class RepairReport:
    """What a repair found and did.

    records: whole ones that were read. lost: chunks that were, and how many of them each source
    gave back. unrepaired: ids of those that nobody had. hurt: which volumes and checkpoints lack
    chunks still, and how many that are known of each; behind a lost page there may be more.
    """

    records: int = 0
    lost: int = 0
    repaired: dict[str, int] = field(default_factory=dict)
    unrepaired: list[str] = field(default_factory=list)
    hurt: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything that has a name is whole."""
        return not self.hurt


def repair(
    store: Store, sources: Sequence[RepairSource], progress: Progress = silent
) -> RepairReport:
    """Read all of a store, and take from the sources what is lost. What was damaged on disk is
    gone from it afterwards where nothing is lost any more. `progress` goes over the store first,
    then, from 0 again, over what is lost.

    Raises StoreFull, StoreDenied; a source that fails is passed over, and logged.
    """
    report = store.verify(progress)
    done = RepairReport(records=report.records)
    count_lost(store, report)
    needs, done.hurt = needs_of(store)
    roots = [root for need in needs for root in need.roots]
    lost: set[ChunkRef] = set(report.lost)
    asked = list(sources)
    while asked and (missing := set(split_refs(store.missing(*roots))) | _absent(store, lost)):
        lost |= missing
        given = sum(_take(store, source, missing, done, progress) for source in asked)
        if not given:
            break
    store.sync()
    lost |= set(split_refs(store.missing(*roots)))
    done.lost = len(lost)
    done.unrepaired = [chunk_id(ref).hex() for ref in sorted(_absent(store, lost))]
    done.hurt += lacking(store, needs)
    if not done.unrepaired:
        store.rewrite({bad.pack for bad in report.bad})
    return done


@contextmanager
def open_source(text: str, keys: SealKeys | None = None) -> Iterator[RepairSource]:
    """The store, medium or peer that a user means: a folder, a UUID, a socket, or
    `ssh://USER@HOST[:PORT]`. Raises NotFoundError, StoreLocked, UsageError, and what
    links raise."""
    path = Path(text)
    if text.startswith("ssh://"):
        with _far(text) as local, HttpClient(local, peer=text) as http:
            yield RepairSource(text, ChunkClient(http).fetch)
    elif (path / "store.json").exists():
        with Store.open_to_read(path) as store:
            yield RepairSource(text, store.records)
    elif path.exists() and S_ISSOCK(path.stat().st_mode):
        with HttpClient(path, peer=text) as http:
            yield RepairSource(text, ChunkClient(http).fetch)
    elif path.exists() and not (path / "satchel").is_dir():
        raise NotFoundError(f"{text} has no chunks", why="it is not a store, a medium or a socket")
    else:
        with Media.open(find_media(text), keys) as media:
            yield RepairSource(text, media.records)


@contextmanager
def _far(url: str) -> Iterator[Path]:
    """A socket here that leads to one there, by OpenSSH, with the keys of the configuration."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or SSH_PORT
    except ValueError as error:
        raise UsageError(f"cannot read {url}", why=str(error)) from error
    if not host or parts.path not in ("", "/"):
        raise UsageError(f"cannot read {url}", why="it must be ssh://USER@HOST or with :PORT")
    destination = f"{parts.username}@{host}" if parts.username else host
    keys = config_dir()
    far = SshHost("source", destination, keys / "id_ed25519", keys / "known_hosts", port)
    with tempfile.TemporaryDirectory(prefix="satchel-") as name:
        local = Path(name) / "peer.sock"
        with SshLink.open(far) as link:
            link.reach(local, API)
            yield local


def _take(
    store: Store,
    source: RepairSource,
    wanted: set[ChunkRef],
    done: RepairReport,
    progress: Progress,
) -> int:
    """How many of those that are absent a source gave. What it gives wrong is not asked again."""
    left = sorted(_absent(store, wanted))
    total = len(left)
    given = 0
    while left:
        progress((total - len(left)) * BLOCK_SIZE, total * BLOCK_SIZE)
        batch, left = left[:BATCH_LIMIT], left[BATCH_LIMIT:]
        while batch:
            try:
                store.admit(source.fetch(b"".join(batch)))
                bad = None
            except ChunkInvalid as error:
                logger.warning("%s gave a wrong chunk: %s", source.label, error)
                bad = error.ref
            except SatchelError as error:
                logger.warning("%s gives nothing more: %s", source.label, error)
                bad, left = None, []
            here = [ref for ref in batch if store.has(ref)[0]]
            given += len(here)
            batch = sorted(set(batch) - set(here) - {bad}) if bad in batch else []
    if given:
        done.repaired[source.label] = done.repaired.get(source.label, 0) + given
    return given


def _absent(store: Store, refs: set[ChunkRef]) -> set[ChunkRef]:
    order = sorted(refs)
    here = store.has(b"".join(order))
    return {ref for ref, there in zip(order, here, strict=True) if not there}
