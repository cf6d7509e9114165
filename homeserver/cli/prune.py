# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home prune`: remove chunks that nothing names."""

from __future__ import annotations

from dataclasses import asdict

import click

from chunkstore import Catalog
from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context
from homeserver.records import ServiceShelf


@click.command("prune")
@json_option
@pass_context
def command(context: Context, as_json: bool) -> None:
    """Remove the chunks that no volume and no checkpoint names. The daemon must not run."""
    with context.open_store() as store:
        keep = [*Catalog(store).roots(), *ServiceShelf.beside(store.path).roots()]
        with bar("prune", quiet=as_json) as progress:
            report = store.prune(keep, progress=progress)
    show(asdict(report), as_json=as_json)
