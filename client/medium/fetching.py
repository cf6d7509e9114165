# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunks that a medium lacks come from home, over this client's link for bulk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from client.platform.settings import ClientSettings
from media import Fetch
from wire import ChunkClient, Link, Priority


def refresh_folder(settings: ClientSettings, service: str, uuid: str) -> Path:
    """Return where a client keeps the chunks that it received and that are not on that medium."""
    return settings.data / "refresh" / f"{service}.{uuid}"


def from_home(link: Link, turn: Callable[[], None]) -> Fetch:
    """Return a function that asks home for chunks over `link`. It calls `turn` before each request;
    `turn` returns when the request may begin, or raises an error that ends the call."""
    chunks = ChunkClient(link.http)

    def fetch(refs: bytes) -> bytes:
        turn()
        link.connect()
        return chunks.fetch(refs, Priority.BACKGROUND)

    return fetch
