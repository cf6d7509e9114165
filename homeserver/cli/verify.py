# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home verify`: read everything and check it."""

from __future__ import annotations

import click

from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context
from homeserver.repair import hurt_in, hurt_text
from satchel.errors import IntegrityError


@click.command("verify")
@json_option
@pass_context
def command(context: Context, as_json: bool) -> None:
    """Check the store: each record's checksum and both hashes.

    Says which volumes and checkpoints are hurt. The daemon must not run.
    """
    with context.open_store_to_read() as store, bar("verify", quiet=as_json) as progress:
        report = store.verify(progress=progress)
        hurt = hurt_in(store, report)
    ok = report.ok and not hurt
    show({**report.to_json(), "ok": ok, "hurt": hurt}, as_json=as_json)
    if ok:
        return
    if hurt:
        why = hurt_text(hurt)
        fix = "`satchel-home repair --from` a store, media or a peer; or import again"
    else:
        places = len(report.bad) or len(report.lost)
        why = (
            f"{places} records are not what they should be; no volume and no checkpoint needs them"
        )
        fix = "`satchel-home prune`, which forgets them"
    raise IntegrityError(f"the store at {context.store} is damaged", why=why, fix=fix)
