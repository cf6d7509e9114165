# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home repair`: take what the store has lost from whoever has it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict

import click

from console import bar, json_option, show
from homeserver.cli.context import Context
from homeserver.store.hurt import hurt_text
from homeserver.store.repair import open_source, repair
from satchel.errors import IntegrityError


@click.command("repair")
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="A source: the folder of a store, a medium (path or UUID), the socket of a home "
    "or a surrogate, or ssh://USER@HOST:PORT; repeatable, asked in this order.",
)
@json_option
@click.pass_obj
def command(context: Context, sources: tuple[str, ...], as_json: bool) -> None:
    """Fetch damaged and lost chunks from other places.

    It reads the whole store, and names the volumes and checkpoints with chunks that no source has.
    Without --from it only checks. The daemon must not run.
    """
    with ExitStack() as stack:
        store = stack.enter_context(context.open_store())
        opened = [
            stack.enter_context(open_source(source, context.settings.media_keys))
            for source in sources
        ]
        with bar("repair", quiet=as_json) as progress:
            done = repair(store, opened, progress)
    show({"ok": done.ok, **asdict(done)}, as_json=as_json)
    if not done.ok:
        raise IntegrityError(
            f"the store at {context.store} lacks chunks",
            why=hurt_text(done.hurt),
            fix="name another source with --from, or import the damaged volumes again",
        )
