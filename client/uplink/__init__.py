# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel uplink`: between unmodified programs and their cloud storage, on the device itself.

- settings: the table `[uplink]` of client.toml
- programs: which program asks, and whether a person waits for it
- conversation: HTTP with one program's connection
- gateway: what becomes of each request: forwarded, held, or answered here
- own_writes: files that are held, in what programs read and list
- accounts: who asks, and what is known of each account at a service
- spool: held uploads, durable
- file_cache: answers that are kept
- flusher: lets held uploads go, and what came of each
- conflicts: what a refused condition means, and the conflict copy
- radio_watch: what the model says that the interface does, and what was spent
- daemon: all of these together; control: the socket at which commands reach it
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from client.device.uplink_settings import UplinkService, UplinkSettings
    from client.uplink.daemon import UplinkDaemon
    from client.uplink.spool import Spool, SpoolFull
else:
    __getattr__ = deferred(__name__)

__all__ = ["Spool", "SpoolFull", "UplinkDaemon", "UplinkService", "UplinkSettings"]
