# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate serve`: the daemon."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import sys

import click

from console import json_option, leave_terminal, note, serve_until_signal, show, web_option
from hypervisor import QemuDriver, choose_driver
from sandbox import let_cells_read
from satchel.errors import ConflictError
from satchel.readiness import allow_descriptors
from surrogate.announcer import HostFingerprints, announcement
from surrogate.api import MAX_BODY, body_limit
from surrogate.host import Host
from surrogate.metrics import HostCollector
from surrogate.operator_api import operator_app
from surrogate.page import surrogate_page
from surrogate.settings import SurrogateSettings
from surrogate.site import peer_app
from surrogate.tenant_sockets import TenantSockets
from wire import Announcer, Intake, metrics_app, serve

CONTROL_MAX_BODY = 1 << 20

logger = logging.getLogger(__name__)


@click.command("serve")
@web_option
@json_option
@click.pass_obj
def command(settings: SurrogateSettings, web: int | None, as_json: bool) -> None:
    """Run the surrogate until Ctrl-C. Its replicas end with it.

    After SIGHUP, or if it is killed, the replicas continue, and the next surrogate takes them over.
    """
    allow_descriptors()
    _require_own(settings)
    for folder in (settings.run, settings.forwarded):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    let_cells_read(settings.data)
    leave: queue.SimpleQueue[None] = queue.SimpleQueue()

    def hang_up(*_: object) -> None:
        leave_terminal()
        leave.put(None)

    signal.signal(signal.SIGHUP, hang_up)
    driver, line = choose_driver(settings.driver, settings.run)
    (logger.debug if isinstance(driver, QemuDriver) else logger.info)("%s", line)
    host = Host(settings, driver)
    try:
        print(f"this host {host.says()}", file=sys.stderr, flush=True)
        with contextlib.ExitStack() as stack:
            sockets = TenantSockets(host)
            stack.callback(sockets.close)
            app, intake = operator_app(host, sockets), Intake(limit=body_limit)
            threads, place = settings.threads, settings.socket
            stack.enter_context(
                serve(app, place, threads=threads, max_body=MAX_BODY, intake=intake)
            )
            metrics, place = metrics_app(HostCollector(host)), settings.metrics_socket
            stack.enter_context(serve(metrics, place, threads=1, max_body=CONTROL_MAX_BODY))
            if settings.peers:
                peers = peer_app(host.store)
                place = settings.peers_socket
                stack.enter_context(serve(peers, place, threads=threads, max_body=CONTROL_MAX_BODY))
            if settings.announce:
                keys = HostFingerprints(settings)
                announcer = Announcer(lambda: announcement(settings, host.status(), keys.now()))
                stack.enter_context(contextlib.closing(announcer)).start()
            if web is not None:
                page = stack.enter_context(surrogate_page(host, sockets, web))
                click.echo(f"web page: {page.link}", err=True)
            if as_json:
                show({"name": host.name, "socket": str(settings.socket)}, as_json=True)
            elif host.cells:
                note(f"cells: {host.cells.text}")
            serve_until_signal(f"surrogate {host.name} answers at {settings.socket}", leave)
            host.leave()
    finally:
        settings.socket.unlink(missing_ok=True)  # an interrupt may come while it is being made
        host.close()


def _require_own(settings: SurrogateSettings) -> None:
    """Raise ConflictError if the folders belong to another user, such as the package's daemon."""
    try:
        owner = settings.run.stat().st_uid
    except OSError:
        return
    if os.geteuid() not in (owner, 0):
        raise ConflictError(
            "this host has a surrogate already",
            why=f"{settings.run} belongs to {settings.run.owner()}: the package has started it",
            fix="`sudo systemctl status satchel-surrogate` shows it",
        )
