# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home serve`: the daemon."""

from __future__ import annotations

import click

from console import serve_until_signal
from homeserver.api import MAX_BODY, home_app
from homeserver.cli.context import Context, pass_context
from homeserver.home import Home
from hypervisor import QemuDriver
from wire import serve


@click.command("serve")
@click.option("--launch", "launches", multiple=True, help="A service to launch; repeatable.")
@pass_context
def command(context: Context, launches: tuple[str, ...]) -> None:
    """Run the home server until Ctrl-C. Its replicas end with it."""
    settings = context.settings
    settings.run.mkdir(parents=True, exist_ok=True, mode=0o700)
    home = Home(settings, QemuDriver())
    try:
        for name in launches:
            home.service(name).launch()
        with serve(home_app(home), settings.socket, threads=settings.threads, max_body=MAX_BODY):
            serve_until_signal(f"home server answers at {settings.socket}")
    finally:
        home.close()
