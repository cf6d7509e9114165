# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home serve-volume`: a stored volume over NBD."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from chunkstore import Catalog
from console import serve_until_signal
from homeserver.cli.context import Context, pass_context
from overlay import VolumeServer, create_volume, local_resolver


@click.command("serve-volume")
@click.argument("name")
@click.option("--socket", type=click.Path(path_type=Path), required=True, help="Where to listen.")
@click.option("--writable", is_flag=True, help="Take writes, into an overlay that is thrown away.")
@pass_context
def command(context: Context, name: str, socket: Path, writable: bool) -> None:
    """Export volume NAME over NBD on a Unix socket until Ctrl-C."""
    with context.open_store() as store, tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        root = Catalog(store).get(name).root
        volume = create_volume(Path(folder), name, root, read_only=not writable)
        server = VolumeServer.start(
            Path(folder), store.path / "packs", [volume], local_resolver(store), socket=socket
        )
        try:
            serve_until_signal(f"volume {name} at {server.uri(name)}")
        finally:
            server.stop()
