# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel move`: to another surrogate."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, TimeoutError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from client.moves.routes import Route
from client.platform.running import running_session
from client.platform.settings import ClientSettings
from console import bar, json_option, note, show, size
from satchel.errors import SatchelError
from satchel.polling import PROGRESS_SECONDS
from satchel.spans import Span, Spans, Steps, process_began

if TYPE_CHECKING:
    from wire import HttpClient


@click.command("move")
@click.argument("service")
@click.option("--to", "surrogate", required=True, help="The surrogate to go to.")
@click.option("--without-media", is_flag=True, help="Fetch from home only.")
@click.option(
    "--route",
    type=click.Choice([route.value for route in Route]),
    help="replay: start from the checkpoint and execute the operations since. handover: "
    "take over the replica at the old surrogate. fresh: start from a checkpoint that "
    "home takes now. [default: the fastest according to `satchel plan`]",
)
@click.option(
    "--trace",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write what client, surrogates and home did, and when, in Chrome's trace format.",
)
@json_option
@click.pass_obj
def command(
    settings: ClientSettings,
    service: str,
    surrogate: str,
    without_media: bool,
    route: str | None,
    file: Path | None,
    as_json: bool,
) -> None:
    """Continue SERVICE at another surrogate.

    The old replica answers until the new one has started, and then ends. After a hand-over the new
    replica answers at once. A bar shows how much must still come from the old surrogate. Mounts of
    shares send home the local writes, like `satchel share offloaded`.
    """
    body = {"to": surrogate, "use_media": not without_media, "route": route}
    body |= {"trace": True} if file else {}
    own = Steps(spans := Spans(), "command", began=process_began())
    own.done("program starts")
    session = running_session(settings, service)
    if settings.mount_sockets:
        from client.shares import tell_mounts  # which needs what only daemons need

        with suppress(SatchelError):  # home gets it all the same, only later
            tell_mounts(settings, "offloaded", None, None)
        own.done("tell mounts")
    answer = _moved(session, body, quiet=as_json)
    own.done("the session moves")
    told = answer.pop("trace", [])
    show(answer, as_json=as_json)
    if file:
        _write_trace(file, told, spans.since(0.0))


def _write_trace(file: Path, told: list[Any], own: list[Span]) -> None:
    """What the session says, with what this program did. Raises as a file that is not written."""
    from client.moves.mover import WAITING
    from client.moves.tracing import HostSpans, chrome, unexplained

    hosts = [HostSpans.from_json(one) for one in told]
    gaps = [end - begin for begin, end in unexplained(hosts, WAITING)]
    hosts[0] = replace(hosts[0], spans=[*own, *hosts[0].spans])
    file.write_text(chrome(hosts), encoding="utf-8")
    longest = max(gaps, default=0.0)
    note(
        f"{file} is for ui.perfetto.dev. Of {sum(gaps):.2f} s nobody says what was done, at most "
        f"{longest:.2f} s at once."
    )
    for host in hosts:
        if host.missing:
            note(f"Of {host.host} nothing is known: {host.missing}")


def _moved(session: HttpClient, body: dict[str, Any], *, quiet: bool) -> Any:
    """What the session answers, with a bar or a line meanwhile. After Ctrl-C it moves on alone."""
    call: Future[Any] = Future()

    def ask() -> None:
        try:
            call.set_result(session.post_json("/v1/move", body, timeout=None))
        except Exception as error:
            call.set_exception(error)

    threading.Thread(target=ask, name="move", daemon=True).start()
    told = quiet or sys.stderr.isatty()
    with bar(f"moving to {body['to']}", quiet=quiet) as progress:
        while not call.done():
            with suppress(TimeoutError):
                call.exception(PROGRESS_SECONDS)
            with suppress(SatchelError):
                now = session.get_json("/v1/move")
                progress(**now)
                if now["total"] and not told:
                    rest = size(now["total"] - now["done"])
                    told = True
                    note(
                        f"{body['to']} answers; {rest} are to come that only the old surrogate has"
                    )
    return call.result()
