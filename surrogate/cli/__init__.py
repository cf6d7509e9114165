# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate`: one file per command."""

from __future__ import annotations

from console import program_group
from surrogate.cli.names import replicas
from surrogate.settings import SurrogateSettings

COMMANDS = {
    "admit": "Show a code that admits one guest for 12 hours.",
    "authority": "The keys that certify this site's guests and hosts.",
    "doctor": "Report what is missing at this surrogate, with remedies.",
    "door": "Be the door that sshd opens for a client's key.",
    "end": "End REPLICA, as `ls` names it.",
    "ls": "List the replicas on this surrogate, of all clients.",
    "serve": "Run the surrogate until Ctrl-C.",
    "sshd-config": "Print a configuration of sshd without shells for guests.",
    "status": "Show what this surrogate has room for.",
    "tenants": "Show the admitted guests, with their usage.",
    "warm": "Bring what services share into the cache ahead of guests.",
}
"""What --help says of each. Each is a module."""


@program_group(__name__, COMMANDS, SurrogateSettings, "surrogate.toml", {"replica": replicas})
def group(settings: SurrogateSettings) -> SurrogateSettings:
    """A hotspot's daemon: replicas of people's services, resumed lazily."""
    return settings
