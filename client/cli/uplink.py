# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel uplink`: cloud storage of unmodified programs, with the radio asleep."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from functools import partial
from typing import Any

import click

from client.platform.settings import ClientSettings
from console import json_option, serve_until_signal, show
from satchel.errors import NotFoundError, SatchelError
from satchel.readiness import allow_descriptors

COLUMNS = ("number", "state", "service", "path", "size", "waited", "why", "copy")
CONTROL_THREADS = 4
MAX_BODY = 1 << 16
FLUSH_SECONDS = 700.0


@click.group("uplink")
def command() -> None:
    """Cloud storage of other programs, with the radio asleep."""


@command.command("serve")
@json_option
@click.pass_obj
def serve_(settings: ClientSettings, as_json: bool) -> None:
    """Stand between programs and the services of client.toml.

    It runs until Ctrl-C. A program uses http://127.0.0.1:PORT/SERVICE in place of the service's
    address. Uploads that are held at the end stay held, and go when the daemon runs again.
    """
    from client.platform.power import Power, Urgency
    from uplink.gateway import (
        DevicePower,
        UplinkDaemon,
        control_app,
        control_socket,
        entries_socket,
    )
    from wire import SELDOM_SECONDS, Links, serve

    if not settings.uplink.services:
        raise NotFoundError(
            "uplink has no service", fix="add one to client.toml: [uplink.services.NAME]"
        )
    allow_descriptors()
    settings.make_folders()
    with contextlib.ExitStack() as links:
        home, power = None, links.enter_context(Power(settings.later_waits))
        if any(service.home for service in settings.uplink.services.values()):
            folder = settings.run / "uplink-links"
            own = links.enter_context(Links(folder, keep_alive=SELDOM_SECONDS))
            home = own.get("home", settings.require_home())
            home.want()
        affords = DevicePower(lambda: power.means.plenty, partial(power.wait, Urgency.SOON))
        place, name = entries_socket(settings.run), settings.client_name
        daemon = UplinkDaemon(settings.uplink, name, home, place, affords)
        links.enter_context(contextlib.closing(daemon))
        app, place = control_app(daemon), control_socket(settings.run)
        with serve(app, place, threads=CONTROL_THREADS, max_body=MAX_BODY):
            rows = [
                {"service": name, "use": f"{daemon.url}/{name}"}
                for name in settings.uplink.services
            ]
            show(rows, as_json=as_json, columns=("service", "use"))
            serve_until_signal(f"uplink listens at {daemon.url}")


@command.command("status")
@json_option
@click.pass_obj
def status(settings: ClientSettings, as_json: bool) -> None:
    """Show held uploads, and the results of finished ones.

    For a conflict it says which name your upload got at the service. A failed upload is kept here
    until `satchel uplink flush --failed` or `satchel uplink forget`.
    """
    found = _ask(settings, "GET", "/v1/status")
    if as_json:
        show(found, as_json=True)
        return
    now = time.time()
    rows = [
        row | {"waited": f"{max(0, now - row['accepted']) / 60:.0f} min"}
        for row in found["uploads"]
        if row["state"] != "confirmed"
    ]
    show(rows, as_json=False, columns=COLUMNS)
    held = found["counts"]["held"] + found["counts"]["flushing"]
    click.echo(f"{held} held, {found['counts']['confirmed']} confirmed; radio: {found['radio']}")


@command.command("stats")
@json_option
@click.pass_obj
def stats(settings: ClientSettings, as_json: bool) -> None:
    """Show the energy spent and saved since the daemon started.

    Joules are computed by a model of the radio, which the settings name. They are not measured.
    """
    found = _ask(settings, "GET", "/v1/stats")
    if as_json:
        show(found, as_json=True)
        return
    show(
        [{"what": key, "value": value} for key, value in found.items()],
        as_json=False,
        columns=("what", "value"),
    )


@command.command("flush")
@click.option("--failed", is_flag=True, help="Also those that the service has refused.")
@json_option
@click.pass_obj
def flush(settings: ClientSettings, failed: bool, as_json: bool) -> None:
    """Send all uploads that are held now, and wait for them."""
    show(_ask(settings, "POST", "/v1/flush", {"failed": failed}), as_json=as_json)


@command.command("hold")
@click.option(
    "--minutes",
    type=click.FloatRange(0, 7 * 24 * 60),
    default=60.0,
    show_default=True,
    help="For how long; 0: hold no longer.",
)
@json_option
@click.pass_obj
def hold(settings: ClientSettings, minutes: float, as_json: bool) -> None:
    """Keep holding uploads, however long they have waited."""
    show(_ask(settings, "POST", "/v1/hold", {"seconds": minutes * 60}), as_json=as_json)


@command.command("forget")
@click.argument("number", type=int)
@json_option
@click.pass_obj
def forget(settings: ClientSettings, number: int, as_json: bool) -> None:
    """Throw the failed upload NUMBER away, with its bytes."""
    show(_ask(settings, "POST", "/v1/forget", {"number": number}), as_json=as_json)


@command.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND")
@click.option(
    "--background", is_flag=True, help="Its uploads may wait. Without this they go at once."
)
@click.option(
    "--namespace", is_flag=True, help="Lead its connections to services here, by the kernel."
)
@click.pass_obj
def run(
    settings: ClientSettings,
    words: tuple[str, ...],
    background: bool,
    namespace: bool,
) -> None:
    """Run COMMAND, and declare whether a person waits for it.

    This also applies to all programs that it starts. With --namespace they use the service's own
    address. Otherwise point them at the address that `uplink serve` prints.
    """
    from uplink.gateway import MARK

    environment = os.environ | {MARK: "background" if background else "foreground"}
    if namespace:
        sys.exit(_run_in_namespace(settings, words, environment))
    os.execvpe(words[0], words, environment)


def _run_in_namespace(
    settings: ClientSettings, words: tuple[str, ...], environment: dict[str, str]
) -> int:
    from uplink.gateway import entries_socket, run_in_namespace, running_uplink

    with running_uplink(settings.run) as daemon:
        daemon.get_json("/v1/stats")

        def report(seconds: float, up: int, down: int) -> None:
            with contextlib.suppress(SatchelError):
                daemon.post_json("/v1/tunnel", {"seconds": seconds, "up": up, "down": down})

        urls = [service.url for service in settings.uplink.services.values()]
        return run_in_namespace(words, environment, urls, entries_socket(settings.run), report)


def _ask(settings: ClientSettings, method: str, path: str, body: Any = None) -> Any:
    from uplink.gateway import running_uplink

    with running_uplink(settings.run) as daemon:
        if method == "GET":
            return daemon.get_json(path)
        return daemon.post_json(path, body, timeout=FLUSH_SECONDS)
