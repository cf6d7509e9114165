# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine will need here, fetched before anybody asks for the machine.

A client that expects to come tells the checkpoint and offers sources, as for a replica. Its device
state, its working set, its profile and its tables go into the cache, with nobody's priority: where
the guess was wrong, an idle link carried something in vain, and the cache gives it up like anything
else that is not used.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from chunkstore import TableRoot
from images import Manifest
from satchel.errors import SatchelError
from surrogate.fetching import Fetcher
from surrogate.tenants.replica_request import named_roots
from volumes import ReadAbandoned
from wire import CreateReplica, ErrorReport, Priority, StagingStatus

logger = logging.getLogger(__name__)

PIECE = 256 << 10
"""Bytes of a blob that are wanted at a time."""

PIECE_BLOCKS = 1 << 16
"""Blocks of a volume whose table pages are looked for at a time: its size is the client's word."""


class StagingTask:
    """Of one request. A thread of its own; `close` ends it."""

    def __init__(
        self,
        request: CreateReplica,
        manifest: Manifest,
        fetcher: Fetcher,
        require_room: Callable[[], None],
    ) -> None:
        """Begin. The fetcher is its own. require_room: is called before each piece, and raises
        where there is none for it"""
        self._request = request
        self._manifest = manifest
        self._fetcher = fetcher
        self._require_room = require_room
        self._error: SatchelError | None = None
        self._closing = threading.Event()
        self._done = threading.Event()
        name = f"stage-{request.replica}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def status(self) -> StagingStatus:
        """What has come so far."""
        return StagingStatus(
            replica=self._request.replica,
            service=self._manifest.service,
            bytes=self._fetcher.bytes_by_source(),
            done=self._done.is_set(),
            error=ErrorReport.of(self._error) if self._error else None,
        )

    @property
    def roots(self) -> list[TableRoot]:
        """What it brings."""
        return named_roots(self._manifest, self._request)

    @property
    def fetched(self) -> int:
        """Bytes that have come."""
        return sum(self._fetcher.bytes_by_source().values())

    def close(self) -> None:
        """Fetch nothing more; what has come stays."""
        self._closing.set()
        self._fetcher.close()
        self._thread.join()

    def _run(self) -> None:
        manifest = self._manifest
        blobs = [manifest.device_state, manifest.working_set, manifest.profile]
        try:
            self._bring_all([blob for blob in blobs if blob])
            for root in manifest.volumes.values():
                self._bring_table(root)
            logger.info("%s is staged: %s", manifest.service, self._fetcher.bytes_by_source())
        except ReadAbandoned:
            pass
        except SatchelError as error:
            logger.info("%s is not staged whole: %s", manifest.service, error)
            self._error = error
        except Exception as error:
            logger.exception("staging %s", manifest.service)
            self._error = SatchelError(f"{manifest.service} is not staged", why=repr(error))
        self._done.set()
        self._fetcher.close()

    def _bring_table(self, root: TableRoot) -> None:
        for start in range(0, root.blocks, PIECE_BLOCKS):
            if self._closing.is_set():
                raise ReadAbandoned("a table is not fetched", why="its staging is being ended")
            self._require_room()
            blocks = range(start, min(start + PIECE_BLOCKS, root.blocks))
            self._fetcher.pages(root, blocks, Priority.BACKGROUND)

    def _bring_all(self, blobs: Sequence[TableRoot]) -> None:
        for blob in blobs:
            for start in range(0, blob.size, PIECE):
                self._require_room()
                length = min(PIECE, blob.size - start)
                self._fetcher.read(blob, start, length, Priority.BACKGROUND)
