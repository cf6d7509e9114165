# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How commands of `satchel-surrogate` reach the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from satchel.errors import UnavailableError
from surrogate.settings import SurrogateSettings

if TYPE_CHECKING:
    from wire import HttpClient


def daemon(settings: SurrogateSettings) -> HttpClient:
    """The running one, or UnavailableError saying how to start it."""
    if not settings.socket.exists():
        raise UnavailableError(
            f"no surrogate answers at {settings.socket}",
            fix="start one with `satchel-surrogate serve`",
        )
    from wire import HttpClient  # --help gets by without it

    return HttpClient(settings.socket, peer="the surrogate")
