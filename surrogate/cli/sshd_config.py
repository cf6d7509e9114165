# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate sshd-config`: what sshd has to be told."""

from __future__ import annotations

import getpass

import click

from surrogate.preflight import wanted_of_sshd
from surrogate.settings import SurrogateSettings
from wire import sshd_snippet


@click.command("sshd-config")
@click.option("--user", help="The account that guests log in to [default: yours].")
@click.pass_obj
def command(settings: SurrogateSettings, user: str | None) -> None:
    """Print a configuration of sshd without shells for guests.

    Put it into a file in /etc/ssh/sshd_config.d and reload sshd. It applies to every key of the
    account, so guests need an account of their own.
    """
    click.echo(sshd_snippet(user or getpass.getuser(), wanted_of_sshd(settings)))
