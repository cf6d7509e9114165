# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the operator's page shows: tenants and their caps, replicas, the host's room, traffic."""

from __future__ import annotations

from typing import Any

from satchel.errors import NotFoundError
from surrogate.host import Host
from surrogate.replicas.hosted import HostedReplica
from surrogate.tenant_sockets import TenantSockets
from surrogate.tenants.tenant import Tenant
from wire import Page, View

TENANT_COLUMNS = (
    "identity",
    "replicas",
    "memory_bytes",
    "vcpus",
    "connections",
    "volume_bytes",
    "overlay_bytes",
    "cache_bytes",
    "day_bytes",
    "hours",
)

REPLICA_COLUMNS = (
    "tenant",
    "replica",
    "service",
    "state",
    "last_operation",
    "fetched_bytes",
    "stalls",
    "started_seconds",
    "first_response_seconds",
)

SOURCE_COLUMNS = (
    "tenant",
    "replica",
    "source",
    "priority",
    "requests",
    "chunks",
    "bytes",
    "seconds",
)

END = {"name": "end", "key": "key", "label": "End"}

END_TENANT = {"name": "end-tenant", "key": "identity", "label": "End all"}


def surrogate_page(host: Host, sockets: TenantSockets, port: int) -> Page:
    """The page while it is served. Raises what Page raises."""
    actions = {"end": lambda key: _end(host, key), "end-tenant": sockets.end_known}
    return Page(lambda: surrogate_view(host, sockets), port, actions)


def surrogate_view(host: Host, sockets: TenantSockets) -> View:
    """A View."""
    status = host.status()
    tenants = [_tenant(host, sockets, tenant) for tenant in host.tenants.all()]
    rows: list[dict[str, Any]] = []
    for hosted in host.replicas():
        told = hosted.status().to_json()
        told |= {"tenant": hosted.tenant.identity, "key": _key(hosted)}
        rows.append(told | {"stalls": told["stalls"]["count"]})
    traffic = [
        {"tenant": row["tenant"], "replica": row["replica"]} | source
        for row in rows
        for source in row["sources"]
    ]
    facts = {
        "runs": status.runs,
        "lacking": status.lacking,
        "memory_free_bytes": status.memory.free,
        "disk_free_bytes": status.disk.free,
        "cache_bytes": {"used": status.cache.size, "cap": status.cache.limit},
        "cells": status.cell,
        "banned": host.tenants.banned(),
    }
    return {
        "title": f"Surrogate {status.name}",
        "sections": [
            {"title": "Tenants", "columns": TENANT_COLUMNS, "rows": tenants, "action": END_TENANT},
            {"title": "Replicas", "columns": REPLICA_COLUMNS, "rows": rows, "action": END},
            {"title": "Traffic by source", "columns": SOURCE_COLUMNS, "rows": traffic},
            {"title": "This host", "facts": facts},
        ],
    }


def _tenant(host: Host, sockets: TenantSockets, tenant: Tenant) -> dict[str, Any]:
    """What it uses, each beside its cap."""
    usage, caps = host.usage(tenant), tenant.caps
    both = {
        "replicas": (usage.replicas, caps.replicas),
        "memory_bytes": (usage.memory_mib << 20, caps.memory_mib << 20),
        "vcpus": (usage.vcpus, caps.vcpus),
        "connections": (sockets.connections(tenant), caps.connections),
        "volume_bytes": (usage.volume_bytes, caps.volume_gib << 30),
        "overlay_bytes": (usage.overlay_bytes, caps.overlay_mib << 20),
        "cache_bytes": (usage.cache_bytes, host.cache.limit * caps.cache_percent // 100),
        "day_bytes": (usage.day_bytes, caps.day_mib << 20),
        "hours": (round(usage.hours, 1), caps.hours),
    }
    told = {name: {"used": used, "cap": cap} for name, (used, cap) in both.items()}
    return {"identity": tenant.identity, **told}


def _key(hosted: HostedReplica) -> str:
    """Two tenants may call a replica the same."""
    return f"{hosted.id} of {hosted.tenant.identity}"


def _end(host: Host, key: str) -> None:
    """Raises NotFoundError where there is none of that key."""
    for hosted in host.replicas():
        if _key(hosted) == key:
            host.remove(hosted.id, hosted.tenant)
            return
    raise NotFoundError(f"no replica {key[:200]} on {host.name}", why="it was ended")
