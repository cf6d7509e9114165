# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel media`: what the person who carries a medium does with it; the rest is home's."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from client.medium.plugged import run_plugged
from client.platform.settings import ClientSettings
from console import DesktopNotifier, bar, json_option, note, program_path, show
from media import (
    Media,
    await_media,
    eject_media,
    find_media,
    media_uuid,
    mounted_media,
    read_first,
    relocate,
)
from satchel.errors import UsageError

NAME_ONE = "plug one in, then `satchel config set media FOLDER`"


@click.group("media")
def command() -> None:
    """The medium that you carry. `satchel-home media` does what needs home."""


@command.command("ls")
@json_option
@click.pass_obj
def ls(settings: ClientSettings, as_json: bool) -> None:
    """List the media that are mounted."""
    awaited = f"plug in the one of {settings.media}" if settings.media else NAME_ONE
    rows = mounted_media(settings.media_keys)
    show(rows, as_json=as_json, empty=f"no medium is mounted: {awaited}")


@command.command("eject")
@click.argument("media", required=False)
@json_option
@click.pass_obj
def eject(settings: ClientSettings, media: str | None, as_json: bool) -> None:
    """Write out what waits for MEDIA, and unmount it.

    MEDIA is its path, its UUID or its device [default: the settings' media]. It is refused while a
    session uses it.
    """
    if not (media or settings.media):
        raise UsageError("no medium is named", fix="say where it is mounted")
    ejected = eject_media(find_media(media or settings.media), settings.media_keys)
    show(asdict(ejected), as_json=as_json)
    note(str(ejected))


@command.command("plugged")
@click.argument("device")
@json_option
@click.pass_context
def plugged(context: click.Context, device: str, as_json: bool) -> None:
    """Run the services on the medium that was plugged in.

    `plugged-services` in client.toml names them; without it the command does nothing. systemd runs
    this command, as `satchel-plugged@`. The desktop shows where the services are used. When
    `satchel stop` has ended their sessions the medium is ejected, and the desktop says that you can
    pull it out. DEVICE is a device, which may be mounted later, or a path. It ignores media that
    are not sealed, and media that no key here opens.
    """
    settings: ClientSettings = context.obj
    if not settings.plugged_services:
        note("client.toml names no `plugged-services`: nothing is done")
        return
    root = await_media(device)
    if root is None:
        note(f"{device} has no medium of Satchel's: nothing is done")
        return
    settings.make_folders()
    config = context.find_root().params.get("config")
    satchel = [str(program_path()), *(["--config", str(config)] if config else ())]
    with DesktopNotifier("Satchel") as desktop:
        show(run_plugged(settings, root, satchel, desktop), as_json=as_json)


@command.command("defrag")
@click.argument("root", required=False, type=click.Path(path_type=Path, file_okay=False))
@json_option
@click.pass_obj
def defrag(settings: ClientSettings, root: Path | None, as_json: bool) -> None:
    """Store the blocks that a resume reads first in one piece.

    A slow medium reads one piece faster than many. ROOT is where the medium is mounted [default:
    the settings' media]. It needs no home. After Ctrl-C, or if you pull the medium out, the medium
    is unchanged.
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
    "--phrase", help="The phrase that `media init` printed [default: you are asked for it]."
)
@click.option("--check", is_flag=True, help="Only test the phrase.")
@click.pass_obj
def unlock(settings: ClientSettings, root: Path | None, phrase: str | None, check: bool) -> None:
    """Open a sealed medium with its recovery phrase.

    From then on this client opens it. ROOT is where it is mounted [default: the settings' media].
    If you gave your SSH key to `satchel-home media init --for`, you need no phrase.
    """
    if root is None and not settings.media:
        raise UsageError("no medium is named", fix="say where it is mounted")
    if phrase is None:
        if not sys.stdin.isatty():
            raise UsageError("no terminal to ask for the phrase", fix="give --phrase")
        phrase = str(click.prompt("recovery phrase", hide_input=True))
    place = root or Path(settings.media)
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.media_keys.unlock(place, media_uuid(place), phrase, keep=not check)
    if check:
        note(f"the phrase opens the medium at {place}")
