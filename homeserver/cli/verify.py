# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home verify`: read everything and check it."""

from __future__ import annotations

import click

from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context
from satchel.errors import IntegrityError


@click.command("verify")
@json_option
@pass_context
def command(context: Context, as_json: bool) -> None:
    """Check the store: each record's checksum and both hashes.

    The daemon must not run.
    """
    with context.open_store_to_read() as store, bar("verify", quiet=as_json) as progress:
        report = store.verify(progress=progress)
    show(report.to_json(), as_json=as_json)
    if not report.ok:
        raise IntegrityError(
            f"the store at {context.store} is damaged",
            why=f"{len(report.bad)} records are not what they should be",
            fix="`satchel-home repair --from` a store, media or a peer; or import again",
        )
