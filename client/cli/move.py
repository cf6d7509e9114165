# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel move`: to another surrogate."""

from __future__ import annotations

import click

from client.cli.context import Context, pass_context
from client.control import running_session
from client.routes import Route
from console import json_option, show


@click.command("move")
@click.argument("service")
@click.option("--to", "surrogate", required=True, help="The surrogate to go to.")
@click.option("--without-media", is_flag=True, help="Fetch from home only.")
@click.option(
    "--route",
    type=click.Choice([route.value for route in Route]),
    help="replay: from the checkpoint, with the operations since then executed again. handover: "
    "from the replica on another surrogate, as it is. fresh: from a checkpoint that home takes for "
    "this. [default: the one that `satchel plan` says is the fastest]",
)
@json_option
@pass_context
def command(
    context: Context,
    service: str,
    surrogate: str,
    without_media: bool,
    route: str | None,
    as_json: bool,
) -> None:
    """Bring up a replica of SERVICE on another surrogate, then end the old one."""
    body = {"to": surrogate, "use_media": not without_media, "route": route}
    session = running_session(context.settings, service)
    show(session.post_json("/v1/move", body, timeout=None), as_json=as_json)
