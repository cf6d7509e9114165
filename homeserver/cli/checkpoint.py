# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home checkpoint`: freeze a service, and carry it."""

from __future__ import annotations

from pathlib import Path

import click

from console import json_option, show
from homeserver.cli.context import Context, pass_context


@click.command("checkpoint")
@click.argument("service")
@click.option(
    "--media",
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    help="Media to bring up to date: its log is reconciled, the new checkpoint put onto it.",
)
@json_option
@pass_context
def command(context: Context, service: str, media: Path | None, as_json: bool) -> None:
    """Take a checkpoint of SERVICE; its machine pauses for a moment."""
    body = {"media": str(media) if media else ""}
    answer = context.daemon().post_json(f"/v1/services/{service}/checkpoint", body, timeout=None)
    show(answer, as_json=as_json)
