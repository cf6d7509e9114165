# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel uplink`: a gateway on the device between unmodified programs and their cloud storage.

- settings: the table `[uplink]` of client.toml
- programs: identifies the program behind a request, and whether a person waits for it
- conversation: HTTP with one program's connection
- gateway: forwards each request, holds it, or answers it here
- own_writes: held files, in the files and lists that programs read
- accounts: the accounts of programs, and the knowledge about each at a service
- spool: held uploads, durable
- file_cache: cached answers
- flusher: sends held uploads, and settles the result of each
- conflicts: refused conditions, and the conflict copy
- radio_watch: the modelled states of the interface, and the energy spent
- daemon: all of these together
- control: the socket at which commands reach the daemon
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from uplink.gateway.control import control_app, control_socket, entries_socket, running_uplink
    from uplink.gateway.daemon import UplinkDaemon
    from uplink.gateway.flusher import DevicePower
    from uplink.gateway.namespace import run_in_namespace
    from uplink.gateway.programs import MARK
    from uplink.gateway.settings import UplinkService, UplinkSettings
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "MARK",
    "DevicePower",
    "UplinkDaemon",
    "UplinkService",
    "UplinkSettings",
    "control_app",
    "control_socket",
    "entries_socket",
    "run_in_namespace",
    "running_uplink",
]
