# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home sshd-config`: what sshd has to be told."""

from __future__ import annotations

import getpass

import click

from console import program_path
from wire import door_settings, sshd_snippet


@click.command("sshd-config")
@click.option("--user", help="The account that clients log in to [default: yours].")
def command(user: str | None) -> None:
    """Print a configuration of sshd without shells for clients.

    Put it into a file in /etc/ssh/sshd_config.d and reload sshd. Then no key of the account gets a
    shell, not even yours.
    """
    settings = door_settings(f"{program_path()} door")
    click.echo(sshd_snippet(user or getpass.getuser(), settings))
