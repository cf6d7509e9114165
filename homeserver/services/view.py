# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a service, as `service ls` and the page show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceView:
    """The public state of a service at one moment.

    state: that of its replica, or `down`, or `failed` after a replica ended by itself. accelerator:
    of its running machine.
    """

    name: str
    state: str
    image: str = ""
    stateful: bool = False
    checkpoint: str | None = None
    last_logged: int = 0
    last_executed: int = 0
    client: str | None = None
    failure: str | None = None
    accelerator: str = ""
