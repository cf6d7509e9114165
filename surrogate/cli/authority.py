# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate authority`: who certifies guests and hosts of this site."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from console import json_option, show
from satchel.errors import NotFoundError
from satchel.files import write_durably
from surrogate.settings import SurrogateSettings
from wire import Authority, own_address

HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key.pub")


@click.group("authority")
def command() -> None:
    """The keys that certify this site's guests and hosts."""


@command.command("init")
@click.option(
    "--host-key",
    type=click.Path(path_type=Path, dir_okay=False),
    default=HOST_KEY,
    show_default=True,
    help="The public key of this host's sshd.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A name or address by which guests reach this host [default: its own]; repeatable.",
)
@json_option
@click.pass_obj
def init(
    settings: SurrogateSettings, host_key: Path, names: tuple[str, ...], as_json: bool
) -> None:
    """Make the keys, and certify this host.

    It prints the three lines that sshd's configuration needs. Run it again after the address of
    this host has changed: it keeps the keys, and certifies the host again.
    """
    folder = settings.authority
    try:
        authority = Authority.open(folder)
    except NotFoundError:
        authority = Authority.create(folder)
    try:
        public = host_key.read_text(encoding="utf-8").strip()
    except FileNotFoundError as error:
        fix = "say with --host-key where the key of this host's sshd is"
        raise NotFoundError(f"no public key {host_key}", fix=fix) from error
    named = list(dict.fromkeys(names or _own_names()))
    certificate = folder / "host-cert.pub"
    line = authority.certify_host(public, named)
    write_durably(certificate, f"{line}\n".encode())
    answer = {
        "authority": str(folder),
        "names": named,
        "fingerprint": authority.hosts.fingerprint,
        "sshd_config": [
            f"TrustedUserCAKeys {authority.users.path}.pub",
            f"HostCertificate {certificate}",
            "ExposeAuthInfo yes",
        ],
    }
    if as_json:
        show(answer, as_json=True)
        return
    click.echo(f"certified as {', '.join(named)}; sshd_config needs:")
    for option in answer["sshd_config"]:
        click.echo(option)


def _own_names() -> list[str]:
    name = socket.gethostname().lower()
    return [own_address(), name, f"{name.split('.')[0]}.local"]
