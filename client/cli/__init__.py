# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel`: one file per command."""

from __future__ import annotations

from client.cli.names import services, surrogates
from client.platform.settings import ClientSettings
from console import program_group

COMMANDS = {
    "call": "Send one HTTP request to SERVICE; print the first response.",
    "config": "Read and change client.toml.",
    "doctor": "Report missing parts, or whether replicas of SERVICE agree.",
    "evidence": "List the evidence against surrogates.",
    "log": "Compare the logs of SERVICE here with home's.",
    "ls": "List the services at home and the surrogates that are known.",
    "media": "The medium that you carry.",
    "mount": "Mount SHARE, a folder at home, at DIR.",
    "move": "Continue SERVICE at another surrogate.",
    "pair": "Pair with the surrogate, or the home, that shows CODE.",
    "path": "Set the places that you are going to.",
    "plan": "Show the routes of SERVICE to other surrogates.",
    "run": "Use SERVICE on a local port until Ctrl-C or `satchel stop`.",
    "share": "Folders at home that are shared with other machines.",
    "stats": "Show how much time and data surrogates saved recently.",
    "status": "Show the session of SERVICE.",
    "stop": "End the session of SERVICE and its replicas on surrogates.",
    "try": "See it all on this machine: home, surrogates, a move.",
    "surrogate": "The surrogates that client.toml names.",
    "surrogates": "List the surrogates on this network and the known ones.",
    "whereis": "Say where SERVICE is, or every service.",
    "uplink": "Cloud storage of other programs, with the radio asleep.",
}
"""What --help says of each. Each is a module."""

NAMES = {"service": services, "surrogate": surrogates, "surrogates": surrogates}


@program_group(__name__, COMMANDS, ClientSettings, "client.toml", NAMES)
def group(settings: ClientSettings) -> ClientSettings:
    """Use your services wherever you are."""
    return settings
