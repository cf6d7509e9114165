# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home serve`: the daemon."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, closing

import click

from console import json_option, note, serve_until_signal, show, web_option
from homeserver.api import home_app, serve_home
from homeserver.cli.context import Context
from homeserver.edge import EdgeDoors, GrantRegistry
from homeserver.home import Home, owner_of
from homeserver.jobs import Jobs
from homeserver.metrics import HomeCollector
from homeserver.page import home_page
from homeserver.shares import ShareRegistry, Shares
from hypervisor import QemuDriver, choose_driver
from sandbox import let_cells_read
from satchel.errors import ConflictError
from satchel.readiness import allow_descriptors
from uplink.helper import ServiceHelpers
from wire import metrics_app, serve

METRICS_MAX_BODY = 1 << 10

logger = logging.getLogger(__name__)


@click.command("serve")
@click.option("--launch", "launches", multiple=True, help="A service to launch; repeatable.")
@web_option
@json_option
@click.pass_obj
def command(context: Context, launches: tuple[str, ...], web: int | None, as_json: bool) -> None:
    """Run the home server until Ctrl-C. Its replicas end with it.

    A service that ran when the server ended starts again, unless `service stop` ended it.
    """
    allow_descriptors()
    context.require_own_store()
    settings = context.settings
    if context.serving:
        raise ConflictError(
            "the home server runs already",
            why=f"it answers at {settings.socket}",
            fix="`satchel-home status` shows its activity",
        )
    owner_of(settings)  # without a home the rest is of no interest
    settings.run.mkdir(parents=True, exist_ok=True, mode=0o700)
    let_cells_read(settings.data)
    driver, line = choose_driver(settings.driver, settings.run)
    (logger.debug if isinstance(driver, QemuDriver) else logger.info)("%s", line)
    home = Home(settings, driver)
    try:
        print(f"this host {home.offer}", file=sys.stderr, flush=True)
        shelf = ShareRegistry(settings.shares)
        with (
            closing(Shares(shelf, settings.share_socket, settings.share_lease_seconds)) as shares,
            closing(home),  # before the shares, of which its guests are nodes
            closing(ServiceHelpers(settings.uplink, settings.data / "uplink")) as helper,
        ):
            for name in launches:
                home.launch(name)
            works = Jobs()
            grants = GrantRegistry(settings.share_grants)
            edges = EdgeDoors(settings.run, grants, shares, home.keeper, home.share_of)
            app = home_app(home, shares, works, edges, helper)
            metrics = metrics_app(HomeCollector(home, shares))
            with (
                closing(edges),
                serve_home(app, settings.socket, threads=settings.threads),
                serve(metrics, settings.metrics_socket, threads=1, max_body=METRICS_MAX_BODY),
                closing(works),  # while the server still answers who waits for them
                ExitStack() as stack,
            ):
                if web is not None:
                    page = stack.enter_context(home_page(home, shares, web))
                    click.echo(f"web page: {page.link}", err=True)
                home.launch_wanted()
                home.timetable.start()
                for line in helper.said():
                    note(line)
                if as_json:
                    show({"socket": str(settings.socket)}, as_json=True)
                elif home.cells:
                    note(f"cells: {home.cells.text}")
                serve_until_signal(f"home server answers at {settings.socket}")
    finally:
        for path in (
            settings.socket,
            settings.door_socket,
            settings.share_socket,
            settings.metrics_socket,
        ):
            path.unlink(missing_ok=True)  # an interrupt may come while it is being made
        home.close()
