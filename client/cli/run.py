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
import flask

from client.arrival import Arrival
from client.carry import CarryRunner
from client.carry.control import carry_control
from client.cli.livemap import live
from client.control import control_app
from client.fronts import Front, desktop_port, open_front
from client.fronts.origin import ServiceOrigin
from client.fronts.ports import LocalPort, only_local
from client.page import SessionView
from client.platform.running import control_socket, only_session
from client.platform.settings import ClientSettings, Policy
from client.roaming import RoamingAgent, roaming_told
from client.runner import Runner, ServiceIsCarried
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
    help="The folder where the medium is mounted [default: the settings' media].",
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
    media: Path | None,
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
    if media is None and settings.media:
        media = Path(settings.media)
    settings.make_folders()
    allow_descriptors()
    stop: queue.SimpleQueue[None] = queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(only_session(settings, service))
            start = _Start(take_over, OwnerOverrides(accept_log, accept_older, accept_part))
            runner, app, fronts = _session(stack, settings, service, media, chosen, start, stop)
            place = control_socket(settings, service)
            stack.enter_context(serve(app, place, threads=CONTROL_THREADS, max_body=MAX_BODY))
            if web is not None:
                page = Page(SessionView(runner), web, desktop=_desktop(fronts))
                stack.enter_context(page)
                click.echo(f"web page: {page.link}", err=True)
            urls = [front.url for front in fronts]
            show({"service": service, "url": urls[0], "urls": urls}, as_json=as_json)
            ready()
            stack.enter_context(live(runner.status))
            if surrogate:
                arrival = Arrival(runner, surrogate)
                stack.callback(arrival.close)
                stack.callback(runner.settle)  # before: a move that is under way ends
                arrival.begin()
            stack.callback(runner.here.close)
            runner.here.start(roaming_told(service), lambda: runner.parked)
            if isinstance(runner, Runner):
                roaming = RoamingAgent(runner, roaming_told(service))
                stack.callback(roaming.close)
                stack.callback(runner.settle)  # before: a move that is under way ends
                roaming.start()
            wait_for(stop)
        finally:
            deaf_to_signals()


@dataclasses.dataclass(frozen=True)
class _Start:
    """What a session begins with in spite of others, and of its medium."""

    take_over: bool
    accepted: OwnerOverrides


def _session(
    stack: contextlib.ExitStack,
    settings: ClientSettings,
    service: str,
    media: Path | None,
    chosen: list[LocalPort],
    start: _Start,
    stop: queue.SimpleQueue[None],
) -> tuple[Runner | CarryRunner, flask.Flask, Sequence[Front]]:
    """The session of the kind that the service's contract needs, what controls it, and where
    programs reach it."""
    runner = Runner(settings, service, media=media)
    try:
        runner.start(take_over=start.take_over, accepted=start.accepted)
    except ServiceIsCarried:
        runner.close()
    except BaseException:
        stack.callback(runner.close)
        raise
    else:
        stack.callback(runner.close)
        port = only_local(service, chosen)
        origin = ServiceOrigin.of(service, settings.state)
        front = open_front(runner.manifest.contract.adapter, runner.session, port, origin)
        stack.callback(front.close)
        return runner, control_app(runner, front, stop), [front]
    carried = CarryRunner(settings, service, media=media)
    stack.callback(carried.close)
    carried.start(take_over=start.take_over, accepted=start.accepted)
    fronts = carried.open_fronts(chosen)
    return carried, carry_control(carried, fronts, stop), fronts


def _desktop(fronts: Sequence[Front]) -> Callable[[], socket.socket] | None:
    """What connects to the service's desktop; None where it has none."""
    port = desktop_port(fronts)
    if port is None:
        return None
    return lambda: socket.create_connection(("127.0.0.1", port))
