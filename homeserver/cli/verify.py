# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home verify`: read everything and check it."""

from __future__ import annotations

import click

from console import json_option, show
from homeserver.cli.context import Context
from homeserver.store import upkeep
from homeserver.store.hurt import hurt_text
from satchel.errors import IntegrityError


@click.command("verify")
@json_option
@click.pass_obj
def command(context: Context, as_json: bool) -> None:
    """Check the store: each record's checksum and both hashes.

    It says which volumes and checkpoints are hurt. If the daemon runs, the daemon does it.
    """
    opened = context.open_store_to_read
    report = context.tend("verify", "/v1/verify", {}, upkeep.verify, quiet=as_json, opened=opened)
    show(report, as_json=as_json)
    if report["ok"]:
        return
    if hurt := report["hurt"]:
        why = hurt_text(hurt)
        fix = "`satchel-home repair --from` a store, media or a peer; or import again"
    else:
        places = len(report["bad"]) or len(report["lost"])
        why = (
            f"{places} records are not what they should be; no volume and no checkpoint needs them"
        )
        fix = "`satchel-home prune`, which forgets them"
    raise IntegrityError(f"the store at {context.store} is damaged", why=why, fix=fix)
