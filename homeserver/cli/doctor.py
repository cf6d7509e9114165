# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home doctor`: what is missing here."""

from __future__ import annotations

from pathlib import Path

import click

from console import exit_code, json_option, show_findings
from homeserver.cli.context import Context
from homeserver.cli.pair import authorized_keys_option, ssh_port_option


@click.command("doctor")
@ssh_port_option
@authorized_keys_option
@json_option
@click.pass_obj
def command(context: Context, ssh_port: int, authorized_keys: Path, as_json: bool) -> int:
    """Report what is missing at this home, with remedies.

    Exits with 4 if something does not work. To compare replicas, use `satchel doctor SERVICE`.
    """
    from homeserver.preflight import preflight  # which needs what only daemons need

    context.require_own_store()
    findings = preflight(context.settings, ssh_port, authorized_keys.expanduser())
    show_findings(findings, as_json=as_json)
    return exit_code(findings)
