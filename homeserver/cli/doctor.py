# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home doctor`: what is missing here."""

from __future__ import annotations

from pathlib import Path

import click

from console import exit_code, json_option, show_findings
from homeserver.cli.context import Context
from homeserver.cli.pair import AUTHORIZED_KEYS
from homeserver.preflight import preflight


@click.command("doctor")
@click.option("--ssh-port", type=click.IntRange(1, 65535), default=22, help="sshd's [default: 22].")
@click.option(
    "--authorized-keys",
    type=click.Path(path_type=Path, dir_okay=False),
    default=AUTHORIZED_KEYS,
    show_default=True,
    help="The file that says who may log in as you.",
)
@json_option
@click.pass_obj
def command(context: Context, ssh_port: int, authorized_keys: Path, as_json: bool) -> int:
    """Say what is missing at this home, each with its remedy.

    Everything at once. Exits with 4 where something does not work. What compares replicas is
    `satchel doctor SERVICE`.
    """
    context.require_own_store()
    findings = preflight(context.settings, ssh_port, authorized_keys.expanduser())
    show_findings(findings, as_json=as_json)
    return exit_code(findings)
