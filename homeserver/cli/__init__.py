# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home`: one file per command, each of which parses, calls one function, and prints."""

from __future__ import annotations

from pathlib import Path

import click

from console import CommandGroup, log_to_stderr, run_program
from homeserver.cli.context import Context
from homeserver.settings import HomeSettings
from satchel.paths import config_dir
from satchel.settings import load

COMMANDS = {
    "checkpoint": "checkpoint",
    "dump": "dump",
    "export": "export",
    "forget": "forget",
    "image": "image",
    "import": "import_",
    "init": "init",
    "launch": "launch",
    "ls": "ls",
    "media": "media",
    "prune": "prune",
    "repair": "repair",
    "serve": "serve",
    "serve-volume": "serve_volume",
    "service": "service",
    "settle": "settle",
    "share": "share",
    "stats": "stats",
    "verify": "verify",
}
"""Each command's module."""


@click.group(
    cls=CommandGroup,
    package=__name__,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings [default: XDG's home.toml]."
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    envvar="SATCHEL_STORE",
    help="The store to work on [default: the home's own].",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what is of use to a developer.")
@click.version_option(package_name="satchel")
@click.pass_context
def group(context: click.Context, config: Path | None, store: Path | None, verbose: bool) -> None:
    """The home server: where a service lives for good."""
    log_to_stderr(verbose=verbose)
    settings = load(HomeSettings, config or config_dir() / "home.toml")
    context.obj = Context(settings, store or settings.store)


def main() -> None:
    """Run `satchel-home`."""
    run_program(group, "satchel-home")
