# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel media`: what the person who carries a medium does with it; the rest is home's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from chunkstore import Media, media_uuid
from client.settings import ClientSettings
from console import bar, json_option, show
from images import read_first, relocate
from satchel.errors import UsageError


@click.group("media")
def command() -> None:
    """The medium that you carry. `satchel-home media` does what needs home."""


@command.command("defrag")
@click.argument("root", required=False, type=click.Path(path_type=Path, file_okay=False))
@json_option
@click.pass_obj
def defrag(settings: ClientSettings, root: Path | None, as_json: bool) -> None:
    """Lay what a resume reads first in one piece.

    A slow medium streams it then. ROOT is where the medium is mounted [default: the settings'
    media]. Needs no home: what is to be moved is read from the medium itself. Says in how many
    pieces it lay, by service, and lies now. Ctrl-C, or pulling it out, leaves what was there
    before.
    """
    if root is None and not settings.media:
        raise UsageError("no medium is named", fix="say where it is mounted")
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        Media.open(root or Path(settings.media), settings.media_keys) as media,
        read_first(media, settings.data) as store,
        bar("defrag", quiet=as_json) as progress,
    ):
        show(asdict(relocate(media, store, progress)), as_json=as_json)


@command.command("unlock")
@click.argument("root", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--phrase", prompt="recovery phrase", hide_input=True, help="That `media init` printed."
)
@click.pass_obj
def unlock(settings: ClientSettings, root: Path | None, phrase: str) -> None:
    """Open a sealed medium with its recovery phrase.

    From then on this client opens it. ROOT is where it is mounted [default: the settings' media].
    A client whose SSH key `satchel-home media init --for` was given needs no phrase.
    """
    if root is None and not settings.media:
        raise UsageError("no medium is named", fix="say where it is mounted")
    place = root or Path(settings.media)
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.media_keys.unlock(place, media_uuid(place), phrase)
