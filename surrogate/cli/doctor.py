# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate doctor`: what is missing here."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from console import exit_code, json_option, show_findings
from surrogate.preflight import preflight
from surrogate.settings import SurrogateSettings


@click.command("doctor")
@click.option("--user", help="The account that guests log in to [default: yours].")
@click.option(
    "--sshd-config",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="sshd's configuration [default: where sshd looks].",
)
@json_option
@click.pass_obj
def command(
    settings: SurrogateSettings, user: str | None, config: Path | None, as_json: bool
) -> int:
    """Report what is missing at this surrogate, with remedies.

    Run it as root, because sshd shows its configuration only to root. Exits with 4 if something
    does not work, or if a guest's key gets more than a door.
    """
    findings = preflight(settings, user or getpass.getuser(), config)
    show_findings(findings, as_json=as_json)
    return exit_code(findings)
