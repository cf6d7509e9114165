# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home settle`: compress what was stored fast."""

from __future__ import annotations

import click

from console import json_option, show
from homeserver.cli.context import Context
from homeserver.store import upkeep


@click.command("settle")
@json_option
@click.pass_obj
def command(context: Context, as_json: bool) -> None:
    """Compress chunks that were stored uncompressed.

    Ctrl-C keeps the finished part, and another call continues from there.
    """
    show(context.tend("settle", "/v1/settle", {}, upkeep.settle, quiet=as_json), as_json=as_json)
