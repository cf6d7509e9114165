# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names that this client knows without asking anybody, for the shell to complete."""

from __future__ import annotations

from collections.abc import Iterator

from client.platform.settings import ClientSettings


def services(settings: ClientSettings) -> Iterator[str]:
    """Those with a session here, now or before."""
    yield from (path.stem for path in settings.run.glob("*.sock"))
    latest = settings.state / "latest"
    if latest.is_dir():
        yield from (path.name for path in latest.iterdir())


def surrogates(settings: ClientSettings) -> Iterator[str]:
    """Those of client.toml."""
    yield from settings.surrogates
