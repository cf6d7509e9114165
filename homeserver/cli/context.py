# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every command of `satchel-home` has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chunkstore import Store
from homeserver.settings import HomeSettings
from satchel.errors import UnavailableError

if TYPE_CHECKING:
    from wire import HttpClient


@dataclass(frozen=True)
class Context:
    """What every command has: the settings, and where the store is."""

    settings: HomeSettings
    store: Path

    def open_store(self) -> Store:
        """The store, for a command that works without the daemon."""
        return Store.open(self.store, level=0)

    def daemon(self) -> HttpClient:
        """The running daemon, or UnavailableError saying how to start it."""
        if not self.settings.socket.exists():
            raise UnavailableError(
                f"no home server answers at {self.settings.socket}",
                fix="start one with `satchel-home serve`",
            )
        from wire import HttpClient  # most commands get by without it

        return HttpClient(self.settings.socket, peer="the home server")


pass_context = click.make_pass_decorator(Context)
