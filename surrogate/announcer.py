# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate lets everybody on its network know."""

from __future__ import annotations

from surrogate.settings import SurrogateSettings
from wire import Announcement, HostStatus


def announcement(settings: SurrogateSettings, status: HostStatus) -> Announcement:
    """status: of the host now; of it only what is no tenant's business."""
    memory = status.memory
    return Announcement(
        name=status.name,
        port=settings.ssh_port,
        version=status.version,
        runs=status.runs,
        load=round(100 * (memory.total - memory.free) / max(1, memory.total)),
        price=settings.price,
    )
