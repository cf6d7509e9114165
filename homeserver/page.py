# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's page shows: services, media, shares and how far who is behind, its store and host."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict
from typing import Any

from homeserver.home import Home
from homeserver.shares import Shares
from media import SealKeys, eject_media, find_media, mounted_media
from satchel.errors import NotFoundError, SatchelError
from wire import CachedView, Page, View

logger = logging.getLogger(__name__)

MEDIA_SECONDS = 10.0
"""How often media are looked at: each is opened for that."""

PATIENCE_SECONDS = 0.5
"""How long they are waited for."""

STORE_SECONDS = 60.0
"""How often it is looked what the store holds: its whole index is read for that."""

SERVICE_COLUMNS = (
    "name",
    "state",
    "accelerator",
    "client",
    "last_logged",
    "last_executed",
    "checkpoint",
    "failure",
)

EJECT = {"name": "eject", "key": "uuid", "label": "Eject"}

MEDIA_COLUMNS = ("uuid", "path", "generation", "checkpoints", "free_bytes")

NOTICE_COLUMNS = ("subject", "text", "since")

TASK_COLUMNS = ("task", "last", "said", "next")

SHARE_COLUMNS = ("name", "path", "policy", "nodes")

NODE_COLUMNS = ("share", "node", "connected", "open_files", "behind_bytes", "since_seconds")


def home_page(home: Home, shares: Shares, port: int) -> Page:
    """The page while it is served. Raises what Page raises."""
    view = HomeView(home, shares)
    return Page(view, port, {"eject": view.eject})


class HomeView:
    """Makes a View of home, for its page."""

    def __init__(self, home: Home, shares: Shares) -> None:
        self._home, self._shares = home, shares
        self._media = _Media(home.settings.media_keys)
        self._store = CachedView(lambda: asdict(home.store.stats()), STORE_SECONDS)

    def __call__(self) -> View:
        """A View. One thread at a time. Raises what the lists of services and shares raise."""
        home, shares = self._home, self._shares
        status = home.status()
        facts = {key: status[key] for key in ("machines", "services", "data")}
        services = [asdict(view) for view in home.views()]
        nodes = [
            node | {"share": share, "node": node["name"], "since_seconds": node["behind_seconds"]}
            for share, rows in shares.nodes().items()
            for node in rows
        ]
        return {
            "title": "Home",
            "sections": [
                {"title": "Problems", "columns": NOTICE_COLUMNS, "rows": home.notices.rows()},
                {"title": "Services", "columns": SERVICE_COLUMNS, "rows": services},
                {
                    "title": "Media",
                    "columns": MEDIA_COLUMNS,
                    "rows": self._media(),
                    "action": EJECT,
                },
                {"title": "Shares", "columns": SHARE_COLUMNS, "rows": shares.listed()},
                {"title": "How far shares are behind", "columns": NODE_COLUMNS, "rows": nodes},
                {
                    "title": "Regular tasks",
                    "columns": TASK_COLUMNS,
                    "rows": home.timetable.rows(),
                },
                {"title": "Store", "facts": self._store()},
                {"title": "This host", "facts": facts},
            ],
        }

    def eject(self, uuid: str) -> None:
        """Write out a medium, and unmount it. Any thread. Raises NotFoundError, MediaCloned,
        and the errors of eject_media."""
        keys = self._home.settings.media_keys
        roots = [row["path"] for row in mounted_media(keys) if row["uuid"] == uuid]
        if not roots:
            raise NotFoundError(f"no medium {uuid[:80]} is mounted")
        eject_media(find_media(uuid), keys)
        self._media.forget()


class _Media:
    """The media that are mounted, looked for by a thread of its own: any file system may hang."""

    def __init__(self, keys: SealKeys) -> None:
        self._keys = keys
        self._rows: list[dict[str, Any]] = []
        self._begun = float("-inf")
        self._thread: threading.Thread | None = None

    def __call__(self) -> list[dict[str, Any]]:
        """Those that were there when they could be looked at last. One thread at a time."""
        running = self._thread is not None and self._thread.is_alive()
        if not running and time.monotonic() - self._begun >= MEDIA_SECONDS:
            self._begun = time.monotonic()
            self._thread = threading.Thread(target=self._look, name="media", daemon=True)
            self._thread.start()
        if self._thread:
            self._thread.join(PATIENCE_SECONDS)
        return self._rows

    def forget(self) -> None:
        """They are looked at anew. Any thread."""
        self._begun = float("-inf")

    def _look(self) -> None:
        try:
            self._rows = mounted_media(self._keys)
        except (SatchelError, OSError) as error:
            logger.warning("media cannot be listed: %s", error)
