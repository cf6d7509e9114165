# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every command of `satchel-surrogate` has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from satchel.errors import UnavailableError
from surrogate.settings import SurrogateSettings

if TYPE_CHECKING:
    from wire import HttpClient


@dataclass(frozen=True)
class Context:
    """The settings."""

    settings: SurrogateSettings

    def daemon(self) -> HttpClient:
        """The running daemon, or UnavailableError saying how to start it."""
        if not self.settings.socket.exists():
            raise UnavailableError(
                f"no surrogate answers at {self.settings.socket}",
                fix="start one with `satchel-surrogate serve`",
            )
        from wire import HttpClient  # --help gets by without it

        return HttpClient(self.settings.socket, peer="the surrogate")


pass_context = click.make_pass_decorator(Context)
