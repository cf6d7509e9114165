# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate door`: what a guest's key may do here."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import click

from satchel.errors import UnavailableError
from satchel.names import check_name
from surrogate.operator import credentials
from surrogate.settings import SurrogateSettings
from wire import API, NoSuchStream, ask_daemon, open_door, take_door_place


@click.command("door")
@click.option(
    "--guest",
    help="The tenant's name, for a `command=` line of authorized_keys [default: from the "
    "key that sshd accepted].",
)
@click.pass_obj
def command(settings: SurrogateSettings, guest: str | None) -> None:
    """Be the door that sshd opens for a client's key. It carries the
    streams of a link over standard input and output, and is of no use at a terminal."""
    until = math.inf
    if guest is None:
        from wire import visitor  # a line with --guest gets by without it

        found = visitor(os.environ)
        guest, until = found.identity, found.until
    take_door_place(settings.run / "doors", guest, settings.tenant.doors, "tenant.doors")
    way = _Way(settings, guest)
    open_door(way.place, lambda: Path(way.admitted()["forwarded"]), until)


class _Way:
    """What one guest reaches of the daemon."""

    def __init__(self, settings: SurrogateSettings, guest: str) -> None:
        self._settings = settings
        self._guest = guest

    def admitted(self) -> dict[str, Any]:
        """Where the guest's API is now, and its folder for sockets. Asked each time: the daemon
        may be another one by now, and the guest be banned. Raises UnavailableError."""
        try:
            headers = credentials(self._settings.run)
        except OSError as error:
            raise UnavailableError("no surrogate runs here", why=str(error)) from error
        body = {"identity": self._guest}
        return ask_daemon(self._settings.socket, "POST", "/v1/tenants", body, headers)

    def place(self, name: str) -> Path:
        """The socket that a stream of that name leads to."""
        kind, *words = name.split("/")
        match kind, words:
            case _ if name == API:
                return Path(self.admitted()["socket"])
            case "streams", [replica]:
                check_name(replica, "replica")
                api = Path(self.admitted()["socket"])
                return Path(ask_daemon(api, "GET", f"/v1/replicas/{replica}/streams")["socket"])
            case "peers", [] if self._guest in self._settings.peer_keys:
                return self._settings.peers_socket
        raise NoSuchStream(f"no stream {name} leads into this surrogate")
