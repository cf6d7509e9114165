# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel`: one file per command."""

from __future__ import annotations

from pathlib import Path

import click

from client.cli.context import Context
from client.settings import ClientSettings
from console import CommandGroup, log_to_stderr
from satchel.paths import config_dir
from satchel.settings import load

COMMANDS = {
    "call": "Send one HTTP request to SERVICE; print the first response.",
    "doctor": "Find the first operation that replicas answer differently.",
    "ls": "List the services at home and the surrogates that are known.",
    "media": "The medium that you carry.",
    "mount": "Mount SHARE of home's at DIR.",
    "move": "Go on with SERVICE at another surrogate.",
    "path": "Say where you are going.",
    "plan": "Show the routes of SERVICE to other surrogates.",
    "run": "Use SERVICE on a local port until Ctrl-C or `satchel stop`.",
    "share": "Shares of home's.",
    "status": "Show the session of SERVICE.",
    "stop": "End the session of SERVICE and its replicas on surrogates.",
}
"""What --help says of each. Each is a module."""


@click.group(
    cls=CommandGroup,
    package=__name__,
    lines=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings [default: XDG's client.toml].",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what is of use to a developer.")
@click.version_option(package_name="satchel")
@click.pass_context
def group(context: click.Context, config: Path | None, verbose: bool) -> None:
    """Use your services wherever you are."""
    log_to_stderr(verbose=verbose)
    context.obj = Context(load(ClientSettings, config or config_dir() / "client.toml"))
