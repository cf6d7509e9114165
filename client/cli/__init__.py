# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel`: one file per command."""

from __future__ import annotations

from pathlib import Path

import click

from client.cli.context import Context
from client.settings import ClientSettings
from console import CommandGroup, log_to_stderr, run_program
from satchel.paths import config_dir
from satchel.settings import load

COMMANDS = (
    *("call", "doctor", "ls", "media", "mount", "move", "path", "plan", "run", "share", "status"),
    "stop",
)
"""Each is a module."""


@click.group(
    cls=CommandGroup,
    package=__name__,
    modules={name: name for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings [default: XDG's client.toml]."
)
@click.option("-v", "--verbose", is_flag=True, help="Log what is of use to a developer.")
@click.version_option(package_name="satchel")
@click.pass_context
def group(context: click.Context, config: Path | None, verbose: bool) -> None:
    """Use your services wherever you are."""
    log_to_stderr(verbose=verbose)
    context.obj = Context(load(ClientSettings, config or config_dir() / "client.toml"))


def main() -> None:
    """Run `satchel`."""
    run_program(group, "satchel")
