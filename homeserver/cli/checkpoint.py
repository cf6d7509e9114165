# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home checkpoint`: freeze a service, and carry it."""

from __future__ import annotations

import click

from console import json_option, show
from homeserver.cli.context import Context
from homeserver.cli.doubtful import doubtful_option
from homeserver.places import with_identity
from media import find_media


@click.command("checkpoint")
@click.argument("service")
@click.option(
    "--media",
    help="A medium, by path or UUID. Home executes what only its log has, and puts the new "
    "checkpoint onto it.",
)
@doubtful_option
@json_option
@click.pass_obj
def command(
    context: Context, service: str, media: str | None, doubtful: str, as_json: bool
) -> None:
    """Take a checkpoint of SERVICE. Its machine pauses for a moment."""
    root = find_media(media) if media else None
    body = {"media": str(root or ""), "doubtful": doubtful}
    path = f"/v1/services/{service}/checkpoint"
    path = with_identity(path, root) if root else path
    answer = context.follow(f"checkpoint {service}", path, body, quiet=as_json)
    show(answer, as_json=as_json)
