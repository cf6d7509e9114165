# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the operator's page shows: the replicas here, the host's room, traffic by source."""

from __future__ import annotations

from typing import Any

from surrogate.host import Host
from wire import View

REPLICA_COLUMNS = (
    "replica",
    "service",
    "state",
    "last_operation",
    "fetched_bytes",
    "stalls",
    "started_seconds",
    "first_response_seconds",
)

SOURCE_COLUMNS = ("replica", "source", "priority", "requests", "chunks", "bytes", "seconds")

END = {"name": "end", "key": "replica", "label": "End"}


def surrogate_view(host: Host) -> View:
    """A View."""
    status = host.status(everything=True).to_json()
    replicas: list[dict[str, Any]] = status["replicas"]
    rows = [row | {"stalls": row["stalls"]["count"]} for row in replicas]
    traffic = [{"replica": row["replica"]} | s for row in replicas for s in row["sources"]]
    facts = {
        "runs": status["runs"],
        "lacking": status["lacking"],
        "memory_free_bytes": status["memory"]["free"],
        "disk_free_bytes": status["disk"]["free"],
        "cache_bytes": status["cache"]["size"],
        "cache_limit_bytes": status["cache"]["limit"],
        "cells": status["cell"],
    }
    return {
        "title": f"Surrogate {status['name']}",
        "sections": [
            {"title": "Replicas", "columns": REPLICA_COLUMNS, "rows": rows, "action": END},
            {"title": "Traffic by source", "columns": SOURCE_COLUMNS, "rows": traffic},
            {"title": "This host", "facts": facts},
        ],
    }
