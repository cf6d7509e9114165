# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium was plugged in at home: it is synced and ejected, and the person's desktop is told.

Nobody is asked, so nothing is written onto a medium in clear, which anybody may have made. What a
sealed one gets is opened by home and by whom it was sealed for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from console import DesktopNotifier
from media import SealKeys, eject_media, require_sealed
from satchel.errors import SatchelError
from satchel.progress import Progress


def sync_plugged(
    root: Path, keys: SealKeys, sync: Callable[[Progress], dict[str, Any]], desktop: DesktopNotifier
) -> dict[str, Any]:
    """What `sync` did, and whether the medium is unmounted. Raises MediaInClear, and what `sync`
    and `eject_media` raise; the desktop is told why."""
    try:
        require_sealed(root, keys)
        desktop.tell(f"Bringing the newest checkpoints onto the medium at {root}.", percent=0)
        done = sync(desktop.progress)
    except SatchelError as error:
        desktop.tell(f"The medium at {root} was not synced: {error}", urgent=True)
        raise
    services = ", ".join(sorted(done["checkpoints"])) or "no service"
    try:
        ejected = eject_media(root, keys)
    except SatchelError as error:
        desktop.tell(f"The medium has {services}. Do not pull it out yet: {error}", urgent=True)
        raise
    desktop.tell(f"{ejected}. It has {services}.", urgent=True)
    return done | {"unmounted": ejected.unmounted}
