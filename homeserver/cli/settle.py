# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home settle`: compress what was stored fast."""

from __future__ import annotations

from dataclasses import asdict

import click

from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context


@click.command("settle")
@json_option
@pass_context
def command(context: Context, as_json: bool) -> None:
    """Compress what imports and checkpoints stored as it was. The daemon must not run.

    Ctrl-C keeps what is done; another call goes on from there.
    """
    with context.open_store() as store, bar("settle", quiet=as_json) as progress:
        report = store.settle(progress=progress)
    show(asdict(report), as_json=as_json)
