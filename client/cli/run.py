# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel run`: use a service."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import socket
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from client.arrival import Arrival
from client.cli.livemap import live
from client.control import control_app
from client.fronts import Front, desktop_port
from client.fronts.ports import LocalPort
from client.page import SessionView
from client.platform.running import control_socket, only_session
from client.platform.settings import ClientSettings, Policy
from client.roaming import RoamingAgent, roaming_told
from client.service import ServiceSession
from client.session.checkpoints import OwnerOverrides
from console import deaf_to_signals, json_option, ready, show, wait_for, web_option
from satchel.readiness import allow_descriptors
from wire import Page, serve

CONTROL_THREADS = 4

MAX_BODY = 1 << 20


@click.command("run")
@click.argument("service")
@click.option("--at", "surrogate", help="A surrogate to bring up a replica on.")
@click.option(
    "--media",
    type=click.Path(path_type=Path, file_okay=False),
    multiple=True,
    help="The folder where a medium is mounted; sealed ones are found [default: the settings' "
    "media].",
)
@click.option(
    "--port",
    "ports",
    metavar="LOCAL[:PORT]",
    multiple=True,
    help="Local port. LOCAL:PORT is for one of several ports of the guest [default: the recipe's, "
    "or a free one].",
)
@click.option(
    "--policy",
    type=click.Choice(typing.get_args(Policy)),
    help="Which replicas answer requests that change nothing [default: the settings' policy].",
)
@click.option(
    "--provisional",
    metavar="LIMIT",
    help="For how long, and how many, answers count before home has confirmed them: 60s,20, or one "
    "of the two, or unlimited [default: the settings' provisional].",
)
@click.option("--take-over", is_flag=True, help="Use it although another client uses it.")
@click.option(
    "--accept-log",
    is_flag=True,
    help="Believe that operations on the medium are yours although they have no seal.",
)
@click.option(
    "--accept-older",
    metavar="CHECKPOINT",
    default="",
    help="Go on from this checkpoint although there was a later one.",
)
@click.option(
    "--accept-part",
    is_flag=True,
    help="Go on without home although the medium has only a part of the checkpoint.",
)
@web_option
@json_option
@click.pass_obj
def command(
    settings: ClientSettings,
    service: str,
    surrogate: str | None,
    media: tuple[Path, ...],
    ports: tuple[str, ...],
    policy: Policy | None,
    provisional: str | None,
    take_over: bool,
    accept_log: bool,
    accept_older: str,
    accept_part: bool,
    web: int | None,
    as_json: bool,
) -> None:
    """Use SERVICE on a local port until Ctrl-C or `satchel stop`.

    Home answers from the first moment on, and a surrogate's replica as soon as it has caught up.
    Without --at a known surrogate that is near is chosen, and another one as you walk; `auto` in
    client.toml says whether. On a terminal a map shows how the replica's volumes fill, and from
    where.
    """
    chosen = [LocalPort.parse(text) for text in ports]
    if surrogate:
        settings.surrogate(surrogate)
    if policy:
        settings = dataclasses.replace(settings, policy=policy)
    if provisional:
        settings = dataclasses.replace(settings, provisional=provisional)
    if not media and settings.media:
        media = (Path(settings.media),)
    settings.make_folders()
    allow_descriptors()
    stop: queue.SimpleQueue[None] = queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(only_session(settings, service))
            accepted = OwnerOverrides(accept_log, accept_older, accept_part)
            session = ServiceSession(settings, service, media=media)
            stack.callback(session.close)
            session.start(take_over=take_over, accepted=accepted)
            fronts = session.open_fronts(chosen)
            place = control_socket(settings, service)
            app = control_app(session, stop)
            stack.enter_context(serve(app, place, threads=CONTROL_THREADS, max_body=MAX_BODY))
            if web is not None:
                page = Page(SessionView(session), web, desktop=_desktop(fronts))
                stack.enter_context(page)
                click.echo(f"web page: {page.link}", err=True)
            urls = [front.url for front in fronts]
            show({"service": service, "url": urls[0], "urls": urls}, as_json=as_json)
            ready()
            stack.enter_context(live(session.status))
            if surrogate:
                arrival = Arrival(session, surrogate)
                stack.callback(arrival.close)
                stack.callback(session.settle)  # before: a move that is under way ends
                arrival.begin()
            stack.callback(session.here.close)
            session.here.start(roaming_told(service), lambda: session.parked)
            roaming = RoamingAgent(session, roaming_told(service))
            stack.callback(roaming.close)
            stack.callback(session.settle)  # before: a move that is under way ends
            roaming.start()
            wait_for(stop)
        finally:
            deaf_to_signals()


def _desktop(fronts: Sequence[Front]) -> Callable[[], socket.socket] | None:
    """What connects to the service's desktop; None where it has none."""
    port = desktop_port(fronts)
    if port is None:
        return None
    return lambda: socket.create_connection(("127.0.0.1", port))
