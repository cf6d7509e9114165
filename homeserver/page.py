# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's page shows: its host, services and shares."""

from __future__ import annotations

from dataclasses import asdict

from homeserver.home import Home
from homeserver.shares import Shares
from wire import View

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

SHARE_COLUMNS = ("name", "path", "policy", "nodes")


def home_view(home: Home, shares: Shares) -> View:
    """A View. Raises what the lists of services and shares raise."""
    status = home.status()
    facts = {key: status[key] for key in ("machines", "services", "data")}
    services = [asdict(view) for view in home.views()]
    return {
        "title": "Home",
        "sections": [
            {"title": "Services", "columns": SERVICE_COLUMNS, "rows": services},
            {"title": "Shares", "columns": SHARE_COLUMNS, "rows": shares.listed()},
            {"title": "This host", "facts": facts},
        ],
    }
