# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home pair`: a code by which a laptop gets to know this home."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from console import json_option, program_path, show, show_code
from homeserver.cli.context import Context
from homeserver.clients import AUTHORIZED_KEYS, Clients, door_line
from satchel.names import host_name
from wire import (
    PAIRING_PORT,
    Grant,
    Invitation,
    PairRequest,
    fingerprint,
    host_keys,
    own_address,
)

ssh_port_option = click.option(
    "--ssh-port", type=click.IntRange(1, 65535), default=22, help="The port of sshd [default: 22]."
)

authorized_keys_option = click.option(
    "--authorized-keys",
    type=click.Path(path_type=Path, dir_okay=False),
    default=AUTHORIZED_KEYS,
    show_default=True,
    help="The file that says who may log in as you.",
)


@click.command("pair")
@click.option(
    "--at", "host", help="The address at which the laptop reaches this host [default: its address]."
)
@ssh_port_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PAIRING_PORT,
    help=f"The port of the pairing [default: {PAIRING_PORT}; 0: any free one].",
)
@authorized_keys_option
@json_option
@click.pass_obj
def command(
    context: Context,
    host: str | None,
    ssh_port: int,
    port: int,
    authorized_keys: Path,
    as_json: bool,
) -> None:
    """Show a code with which one laptop can pair with this home.

    The code is valid for two minutes and three tries. Type the shown command on the laptop. Its key
    may then use this home, without a shell, and the laptop knows the keys of this host and its
    owner.
    """
    from homeserver.home import signers_line  # which needs what only daemons need

    context.require_own_store()
    settings = context.settings
    place = host or own_address()
    keys = host_keys("127.0.0.1", ssh_port)
    signer = signers_line(settings)
    clients = Clients(settings, authorized_keys)

    def grant(request: PairRequest) -> Grant:
        clients.pair(door_line(program_path(), request.public, request.name))
        return Grant(
            kind="home",
            name=host_name(),
            user=getpass.getuser(),
            port=ssh_port,
            socket=str(settings.socket),
            host_keys=tuple(keys),
            signer=signer,
        )

    with Invitation("home", grant, port=port) as invitation:
        address = invitation.address(place, fingerprint(keys[0]))
        show_code(address.uri, address.code, address.place, to_do="satchel pair --home")
        laptop = invitation.wait()
    show({"paired": laptop.name, "key": fingerprint(laptop.public)}, as_json=as_json)
