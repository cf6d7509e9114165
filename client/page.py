# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session's page shows: replicas and their volumes, what is stable, traffic by source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wire import View

REPLICA_COLUMNS = (
    "name",
    "state",
    "operation",
    "lag",
    "first_responses",
    "response_seconds",
    "fetched_bytes",
    "error",
)

SOURCE_COLUMNS = ("replica", "source", "priority", "requests", "chunks", "bytes", "seconds")

FACTS = (
    "checkpoint",
    "last_operation",
    "stable_operation",
    "answered",
    "sent_bytes",
    "media",
    "journal_failure",
    "refusal",
    "policy",
    "contract",
    "leader",
    "behind_seconds",
    "delta_bytes",
    "losses",
)
"""Of a session's status, those that its kind has."""


def session_view(status: Mapping[str, Any]) -> View:
    """A View of what `satchel status` shows."""
    firsts, replicas = status["first_responses"], status["replicas"]
    rows = [row | {"first_responses": firsts.get(row["name"], 0)} for row in replicas]
    traffic = [{"replica": row["name"]} | s for row in replicas for s in row["sources"] or ()]
    maps = [
        {"name": f"{row['name']}, {volume['name']}", "parts": volume["parts"]}
        for row in replicas
        for volume in row["volumes"] or ()
    ]
    sections: list[dict[str, Any]] = [
        {"title": "Replicas", "columns": REPLICA_COLUMNS, "rows": rows},
        {"title": "Session", "facts": {key: status[key] for key in FACTS if key in status}},
        {"title": "Traffic by source", "columns": SOURCE_COLUMNS, "rows": traffic},
    ]
    if maps:
        sections.insert(1, {"title": "What is here of each volume", "maps": maps})
    return {"title": f"Session of {status['service']}", "sections": sections}
