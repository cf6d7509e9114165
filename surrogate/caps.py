# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an operator lets one tenant have: the table `[tenant]` of surrogate.toml."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from satchel.settings import require_numbers


@dataclass(frozen=True)
class TenantCaps:
    """What each tenant may have at most; what is refused for it says which of these it was.

    replicas:      machines that it has here
    memory_mib:    memory of all its machines together
    vcpus:         processors of all its machines together
    volume_gib:    sizes of the disks of all its machines together
    overlay_mib:   what its machines together may have written to their disks here; beyond that the
                   one that has written most is ended
    cache_percent: of the chunk cache. Staging ends there, and who has brought more for machines
                   that run begins nothing more until some of them end. What is left of those that
                   have ended goes first, and no other tenant's chunks for it
    requests:      answered at once; those beyond wait for one of its own
    connections:   open at once; those beyond wait, too
    doors:         links at once, each with a door of about 14 MiB
    body_mib:      bodies of requests on their way or in work together; more are refused
    day_mib:       bytes a day, fetched for it and through its socket; beyond that all is ended and
                   refused until the day is over
    hours:         how long one of its replicas runs; then it is ended
    """

    replicas: int = 8
    memory_mib: int = 1536
    vcpus: int = 8
    volume_gib: int = 128
    overlay_mib: int = 8192
    cache_percent: int = 50
    requests: int = 8
    connections: int = 32
    doors: int = 8
    body_mib: int = 256
    day_mib: int = 32768
    hours: float = 12.0

    def __post_init__(self) -> None:
        """Raises SettingsError."""
        require_numbers(self, positive=[field.name for field in dataclasses.fields(self)])
