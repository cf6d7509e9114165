# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate`: one file per command."""

from __future__ import annotations

from pathlib import Path

import click

from console import CommandGroup, log_to_stderr
from satchel.paths import config_dir
from satchel.settings import load
from surrogate.cli.context import Context
from surrogate.settings import SurrogateSettings

COMMANDS = {
    "ls": "List the replicas on this surrogate.",
    "serve": "Run the surrogate until Ctrl-C.",
    "status": "Show what this surrogate has room for.",
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
    help="Settings [default: XDG's surrogate.toml].",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what is of use to a developer.")
@click.version_option(package_name="satchel")
@click.pass_context
def group(context: click.Context, config: Path | None, verbose: bool) -> None:
    """A hotspot's daemon: replicas of people's services, resumed lazily."""
    log_to_stderr(verbose=verbose)
    context.obj = Context(load(SurrogateSettings, config or config_dir() / "surrogate.toml"))
