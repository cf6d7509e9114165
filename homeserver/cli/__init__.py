# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home`: one file per command, each of which parses, calls one function, and prints."""

from __future__ import annotations

from pathlib import Path

import click

from console import program_group
from homeserver.cli.context import Context
from homeserver.cli.names import images, recipes, services, shares, volumes
from homeserver.settings import HomeSettings

COMMANDS = {
    "checkpoint": "Take a checkpoint of SERVICE.",
    "clients": "List the paired clients.",
    "doctor": "Report what is missing at this home, with remedies.",
    "door": "Be the door that sshd opens for a client's key.",
    "dump": "Show the content of FILE, for developers.",
    "export": "Export volume NAME into FILE, raw and sparse.",
    "forget": "Forget old versions of volumes and old checkpoints.",
    "image": "Service images, built from recipes.",
    "import": "Import FILE as the newest version of volume NAME.",
    "init": "Make a home: a store, and the owner's key.",
    "launch": "Run SERVICE at home, from its newest checkpoint if any.",
    "ls": "List the volumes of the store.",
    "media": "Portable media: anything mounted that holds files.",
    "notify": "Notices of problems at home.",
    "pair": "Show a code with which one laptop can pair with this home.",
    "prune": "Remove the chunks that nothing needs.",
    "repair": "Fetch damaged and lost chunks from other places.",
    "schedule": "List the regular tasks of home, with their times.",
    "serve": "Run the home server until Ctrl-C.",
    "serve-volume": "Export volume NAME over NBD on a Unix socket until Ctrl-C.",
    "service": "The services of this home.",
    "settle": "Compress chunks that were stored uncompressed.",
    "share": "Folders that are shared with other machines.",
    "sshd-config": "Print a configuration of sshd without shells for clients.",
    "stats": "Show the content of the store.",
    "status": "Show what this host can run, and what runs.",
    "unpair": "Shut the client NAME out, and end its work here.",
    "verify": "Check the store: each record's checksum and both hashes.",
}
"""What --help says of each. Each is a module."""

NAMES = {
    "export.name": volumes,
    "forget.names": volumes,
    "image.name": images,
    "image.target": recipes,
    "import.name": volumes,
    "launches": services,
    "serve-volume.name": volumes,
    "service": services,
    "service.add.name": images,
    "service.image": images,
    "service.name": services,
    "share": shares,
    "share.name": shares,
}


@program_group(__name__, COMMANDS, HomeSettings, "home.toml", NAMES)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    envvar="SATCHEL_STORE",
    help="The store to work on [default: the home's own].",
)
def group(settings: HomeSettings, store: Path | None) -> Context:
    """The home server: where a service lives for good."""
    return Context(settings, store or settings.store)
