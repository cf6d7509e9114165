# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel mount`: a share of home's as a folder."""

from __future__ import annotations

from pathlib import Path

import click

from client.platform.settings import ClientSettings
from client.shares import journals, parking, serve_mount, share_way
from satchel.readiness import allow_descriptors
from shares.mount import (
    MountedShare,
    Ready,
    run_until_signal,
    serve_here,
    serve_in_background,
)

MIB = 1 << 20


@click.command("mount")
@click.argument("names", nargs=-1, metavar="[SHARE] DIR", required=True)
@click.option(
    "--allow-other",
    is_flag=True,
    help="Let other users in, by mode. Without root, /etc/fuse.conf needs user_allow_other.",
)
@click.option("--background", is_flag=True, help="Return when it is mounted.")
@click.option(
    "--buffer-mib",
    type=click.IntRange(min=1),
    help="MiB of memory for content from elsewhere [default: 1/32 of all].",
)
@click.option(
    "--wait",
    type=click.FloatRange(0, 1_000_000),
    default=30.0,
    show_default=True,
    help="Seconds until programs that wait for home get an error; 0: never.",
)
@click.pass_obj
def command(
    settings: ClientSettings,
    names: tuple[str, ...],
    allow_other: bool,
    background: bool,
    buffer_mib: int | None,
    wait: float,
) -> None:
    """Mount SHARE, a folder at home, at DIR.

    It stays until Ctrl-C or `fusermount3 -u DIR`, and needs no root. SHARE may be left out if home
    has one. It first sends the writes of an earlier mount, and at the end its own. If home is
    unreachable then, they stay in a journal: the command says so and ends with exit code 8.

    An unused mount leaves home until a program uses it (the setting `park_seconds`). In the
    background it logs to `mount.log` in the folder of the setting `state`.
    """
    if len(names) > 2:
        raise click.UsageError("say SHARE and DIR, or DIR alone")
    share, place = (None, names[0]) if len(names) == 1 else names
    limit = None if buffer_mib is None else buffer_mib * MIB
    mountpoint = Path(place).absolute()

    def serve(ready: Ready) -> None:
        allow_descriptors()
        settings.make_folders()
        with share_way(settings) as way:
            mounted = MountedShare(
                way.call,
                way.choose(share),
                settings.client_id,
                mountpoint,
                journals(settings).root,
                home=journals(settings).home,
                limit=limit,
                wait=wait or None,
                ahead=True,
                parking=parking(settings, way),
                map_owner=True,
                allow_other=allow_other,
            )
            with serve_mount(settings, mounted):
                run_until_signal(mounted, ready)

    if background:
        serve_in_background("satchel", serve, settings.state / "mount.log")
    else:
        serve_here(serve)
