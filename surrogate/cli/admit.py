# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate admit`: a code by which a guest gets in."""

from __future__ import annotations

import getpass

import click

from console import json_option, program_path, show, show_code
from satchel.names import host_name
from surrogate.settings import SurrogateSettings
from wire import PAIRING_PORT, Authority, Grant, Invitation, PairRequest, fingerprint, own_address


@click.command("admit")
@click.option(
    "--at", "host", help="The address at which guests reach this host [default: its address]."
)
@click.option("--user", help="The account that guests log in to [default: yours].")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PAIRING_PORT,
    help=f"The port of the pairing [default: {PAIRING_PORT}; 0: any free one].",
)
@json_option
@click.pass_obj
def command(
    settings: SurrogateSettings,
    host: str | None,
    user: str | None,
    port: int,
    as_json: bool,
) -> None:
    """Show a code that admits one guest for 12 hours.

    The code is valid for two minutes and three tries. The guest types the shown command, and gets a
    certificate.
    """
    authority = Authority.open(settings.authority)
    name, account = settings.name or host_name(), user or getpass.getuser()
    door = f"{program_path()} door"

    def grant(request: PairRequest) -> Grant:
        return Grant(
            kind="surrogate",
            name=name,
            user=account,
            port=settings.ssh_port,
            socket=str(settings.socket),
            host_authority=authority.hosts.public,
            certificate=authority.certify_guest(request.public, user=account, command=door),
        )

    with Invitation("surrogate", grant, port=port) as invitation:
        address = invitation.address(host or own_address(), authority.hosts.fingerprint)
        show_code(address.uri, address.code, address.place, to_do="satchel pair")
        guest = invitation.wait()
    admitted = {"admitted": guest.name, "identity": fingerprint(guest.public)}
    show(admitted, as_json=as_json)
