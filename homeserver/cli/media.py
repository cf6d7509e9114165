# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home media`: portable media."""

from __future__ import annotations

from pathlib import Path

import click

from chunkstore import Media
from console import json_option, show
from homeserver.carry import media_contents

ROOT = click.Path(path_type=Path, exists=True, file_okay=False)


@click.group("media")
def group() -> None:
    """Portable media: anything mounted that holds files."""


@group.command("init")
@click.argument("root", type=ROOT)
@json_option
def init(root: Path, as_json: bool) -> None:
    """Prepare the media mounted at ROOT. Other files on it are left alone."""
    Media.init(root)
    show({"media": str(root)}, as_json=as_json)


@group.command("ls")
@click.argument("root", type=ROOT)
@json_option
def ls(root: Path, as_json: bool) -> None:
    """List the checkpoints on the media mounted at ROOT."""
    show(media_contents(root), as_json=as_json)
