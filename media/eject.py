# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium is taken out: nobody writes a log on it, and all of it is written out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from media.medium import Media
from media.mounts import MediaBusy, release_media
from media.seal import SealKeys
from replay import Log, LogBusy, logs_in
from satchel.errors import SatchelError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EjectReport:
    """A medium that is written out. generation: its newest. unmounted: else a folder, no mount"""

    uuid: str
    path: str
    generation: int
    unmounted: bool

    def __str__(self) -> str:
        """For people."""
        if self.unmounted:
            return f"{self.path} can be pulled out"
        return f"{self.path} is a folder and no mount: it is written out, and stays"


def eject_media(root: Path, keys: SealKeys | None = None) -> EjectReport:
    """Make everything on media durable and unmount it, so that it can be pulled out.

    A folder that is no mount of its own is synced and stays. Raises MediaNotFound, MediaBusy when
    a client's log or another program uses it, MediaGone when what waits cannot be written.
    """
    with Media.open(root, keys) as media:
        uuid, generation = media.uuid, media.newest
    for path in logs_in(root / "satchel" / "log"):
        _require_free(path)
    return EjectReport(uuid, str(root), generation, release_media(root))


def _require_free(path: Path) -> None:
    """A client that writes the log has it locked."""
    try:
        Log.open(path, read_only=False).close()
    except LogBusy as error:
        raise MediaBusy(
            f"the medium with {path} is in use", why=str(error), fix="`satchel stop` ends it"
        ) from error
    except SatchelError as error:
        logger.warning("%s", error)
