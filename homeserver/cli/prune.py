# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home prune`: remove chunks that nothing names."""

from __future__ import annotations

from typing import Any

import click

from chunkstore import Store, StoreFull
from console import json_option, show
from homeserver.cli.context import Context
from homeserver.services.records import needed_roots
from homeserver.store import upkeep


@click.command("prune")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
@click.pass_obj
def command(context: Context, dry_run: bool, as_json: bool) -> None:
    """Remove the chunks that nothing needs.

    Chunks of volumes, checkpoints and machines stay. If the daemon runs, the daemon does it, and
    takes checkpoints meanwhile.
    """
    show(prune(context, dry_run=dry_run, quiet=as_json), as_json=as_json)


def prune(context: Context, *, dry_run: bool, quiet: bool) -> dict[str, Any]:
    """The report of a prune, by the daemon where it has the store."""
    relieved: list[int] = []
    pruned: dict[str, Any] = context.tend(
        "prune",
        "/v1/prune",
        {"dry_run": dry_run},
        lambda store, progress: upkeep.prune(store, dry_run=dry_run, progress=progress),
        quiet=quiet,
        opened=lambda: _open(context, relieved, dry_run=dry_run),
    )
    return pruned | {"bytes_before": pruned["bytes_before"] + sum(relieved)}


def _open(context: Context, relieved: list[int], *, dry_run: bool) -> Store:
    """A disk that others have filled is first given back what needs no room to be removed: so many
    bytes are added to `relieved`."""
    if dry_run:
        return context.open_store_to_read()
    try:
        return context.open_store()
    except StoreFull:
        with Store.open_to_relieve(context.store) as store:
            relieved.append(store.remove_dead(needed_roots(store)))
            if not relieved[-1]:
                raise
        return context.open_store()
