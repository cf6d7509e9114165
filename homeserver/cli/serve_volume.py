# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home serve-volume`: a stored volume over NBD."""

from __future__ import annotations

from pathlib import Path

import click

from chunkstore import Catalog
from console import json_option, serve_until_signal, show
from homeserver.cli.context import Context
from satchel.errors import NotFoundError
from volumes import serve_stored


@click.command("serve-volume")
@click.argument("name")
@click.option(
    "--socket", type=click.Path(path_type=Path), required=True, help="The socket to listen at."
)
@click.option("--writable", is_flag=True, help="Take writes, into an overlay that is thrown away.")
@json_option
@click.pass_obj
def command(context: Context, name: str, socket: Path, writable: bool, as_json: bool) -> None:
    """Export volume NAME over NBD on a Unix socket until Ctrl-C.

    The daemon must not run.
    """
    if not socket.parent.is_dir():
        raise NotFoundError(f"cannot listen at {socket}", why=f"there is no folder {socket.parent}")
    with context.open_store_to_read() as store:
        root = Catalog(store).get(name).root
        with serve_stored(store, name, root, socket, writable=writable) as server:
            if as_json:
                show({"name": name, "uri": server.uri(name)}, as_json=True)
            serve_until_signal(f"volume {name} at {server.uri(name)}")
