# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One medium's copy of a carried service: each state that home has signed comes onto it.

A delta went through this client on its way home. So nothing of it is asked of home again: its
blocks are laid over the checkpoint on the medium, and the tables that come out are those that home
has signed, or they are of no use. Where deltas are missing in between, home is asked for the rest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from client.medium.fetching import from_home
from client.medium.sticks import Stick
from images import Manifest
from media import Refresher, SignedManifest
from satchel.errors import SatchelError, StateError
from wire import Link

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0

DELTA_BYTES = 64 << 20
"""Bytes of deltas that are kept until the medium has them; then home is asked for their content."""


class MediumCopy:
    """The copy of one session. Thread-safe; `close` ends its thread.

    manifest: the newest signed state on the medium. failure: why a newer one has not come.
    """

    def __init__(
        self,
        stick: Stick,
        service: str,
        folder: Path,
        bulk: Link,
        give_way: Callable[[], None],
        in_use: Callable[[], Sequence[Manifest]],
    ) -> None:
        """folder: see Refresher; bulk: a link to home; give_way: returns when streams have nothing
        to say; in_use: checkpoints with which replicas began that run."""
        self._stick = stick
        self._give_way = give_way
        self._in_use = in_use
        self._refresher = Refresher(stick.media, service, folder, from_home(bulk, self._turn))
        self._changed = threading.Condition()  # guards what follows
        self._wanted: SignedManifest | None = None
        self._deltas: list[bytes] = []
        self._closing = threading.Event()
        self.manifest = stick.newest
        self.written_bytes = 0
        self.failure = stick.failure
        self._thread: threading.Thread | None = None

    @property
    def there(self) -> bool:
        """Whether the medium was plugged in a moment ago."""
        return self._stick.there

    @property
    def root(self) -> Path:
        return self._stick.root

    @property
    def at(self) -> float:
        """When the state on the medium was signed, in seconds since 1970; 0 where there is none."""
        if self.manifest is None:
            return 0.0
        return datetime.fromisoformat(self.manifest.created).timestamp()

    def status(self, place: str, *, rests: bool) -> dict[str, Any]:
        """For `satchel status`. rests: nothing was done since the state on the medium."""
        there = self.manifest
        seconds = 0.0 if rests else max(0.0, round(time.time() - self.at, 1))
        behind = None if there is None else seconds
        return {
            "place": place,
            "checkpoint": there.id if there else None,
            "seconds_behind": behind,
            "written_bytes": self.written_bytes,
            "failure": self.failure,
        }

    def want(self, new: SignedManifest, delta: bytes | None = None) -> None:
        """Have the medium get a state that home has signed. delta: since the one before, if this
        client has it. Returns at once."""
        with self._changed:
            self._wanted = new
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="medium", daemon=True)
                self._thread.start()
            if delta is not None and sum(map(len, self._deltas)) + len(delta) <= DELTA_BYTES:
                self._deltas.append(delta)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Whether the medium has all that it should, in so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._wanted is None, seconds)

    def close(self) -> None:
        """End it. The medium has one state or another, whatever was under way."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread:
            self._thread.join()

    def _turn(self) -> None:
        if self._closing.is_set():
            raise StateError("the session has ended")
        self._give_way()

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._closing.is_set())
                new, deltas = self._wanted, list(self._deltas)
            if new is None or self._closing.is_set():
                return
            try:
                self._bring(new, deltas)
            except SatchelError as error:
                self.failure = self._stick.failure = str(error)
                logger.info("the medium has no newer copy: %s", error)
                self._closing.wait(RETRY_SECONDS)

    def _bring(self, new: SignedManifest, deltas: list[bytes]) -> None:
        self._turn()
        began = time.monotonic()
        written = self._refresher.bring(new, deltas, self._in_use())
        logger.debug("%s on the medium in %.2f s", new.manifest.id, time.monotonic() - began)
        with self._changed:
            self.manifest = self._stick.newest = new.manifest
            self.failure = self._stick.failure = None
            self.written_bytes += written.media_bytes
            del self._deltas[: len(deltas)]
            if self._wanted is new:
                self._wanted = None
            self._changed.notify_all()
