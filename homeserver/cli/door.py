# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home door`: what a client's key may do here."""

from __future__ import annotations

import os
from pathlib import Path

import click

from homeserver.cli.context import Context
from homeserver.clients import Clients
from homeserver.settings import HomeSettings
from satchel.names import check_name
from satchel.paths import call_socket, edge_sockets
from wire import API, NoSuchStream, ask_daemon, open_door, take_door_place

MOST = 16
"""Doors of one client. A device uses one for each of its commands and mounts."""


@click.command("door")
@click.option("--client", help="The fingerprint of the key [default: the key that sshd accepted].")
@click.pass_obj
def command(context: Context, client: str | None) -> None:
    """Be the door that sshd opens for a client's key. It carries the streams of
    a link over standard input and output, and is of no use at a terminal."""
    key = Clients(context.settings).enter(client, os.environ)
    take_door_place(context.settings.run / "doors", key, MOST, "home's limit for one client")
    open_door(lambda name: _place(context.settings, name))


def _place(settings: HomeSettings, name: str) -> Path:
    """The socket that a stream of that name leads to."""
    kind, *words = name.split("/")
    for word in words:
        check_name(word, "stream")
    match kind, words:
        case _ if name == API:
            return settings.door_socket
        case "shares", []:
            return settings.share_socket
        case "calls", [service]:
            return settings.socket.with_name(call_socket(service))
        case "edge", [service, surrogate]:
            return settings.socket.with_name(edge_sockets(service, surrogate)[0])
        case "edge-calls", [service, surrogate]:
            return settings.socket.with_name(edge_sockets(service, surrogate)[1])
        case (("streams" | "egress"), [service]):
            answer = ask_daemon(settings.socket, "GET", f"/v1/services/{service}/{kind}")
            return Path(str(answer.get("socket")))
    raise NoSuchStream(f"no stream {name} leads into this home")
