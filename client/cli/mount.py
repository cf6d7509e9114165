# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel mount`: a share of home's as a folder."""

from __future__ import annotations

from pathlib import Path

import click

from client.settings import ClientSettings
from client.shares import journals, parking, serve_mount, share_way
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
@click.option("--background", is_flag=True, help="Return when it is mounted.")
@click.option(
    "--buffer-mib",
    type=click.IntRange(min=1),
    help="MiB of others' content [default: memory / 32].",
)
@click.option(
    "--wait",
    type=click.FloatRange(0, 1_000_000),
    default=30.0,
    show_default=True,
    help="Seconds for which programs wait for a home that is not reached, until they get an error; "
    "0: for ever.",
)
@click.pass_obj
def command(
    settings: ClientSettings,
    names: tuple[str, ...],
    background: bool,
    buffer_mib: int | None,
    wait: float,
) -> None:
    """Mount SHARE of home's at DIR.

    Until Ctrl-C or `fusermount3 -u DIR`. SHARE can be left out where home has one only. Needs no
    root. A mount that nobody uses leaves home until somebody does (the setting `park_seconds`).
    What an earlier mount of SHARE could not send is sent first. What home has not yet at the
    end is sent before the command ends. Where home is not reached it stays in a journal, in the
    folder `shares` of the setting `state`: the command says so and ends with exit code 8. In the
    background it logs to `mount.log` in the folder of the setting `state`.
    """
    if len(names) > 2:
        raise click.UsageError("say SHARE and DIR, or DIR alone")
    share, place = (None, names[0]) if len(names) == 1 else names
    limit = None if buffer_mib is None else buffer_mib * MIB
    mountpoint = Path(place).absolute()

    def serve(ready: Ready) -> None:
        settings.make_folders()
        with share_way(settings) as way:
            mounted = MountedShare(
                way.call,
                way.choose(share),
                settings.client_name,
                mountpoint,
                journals(settings).root,
                home=journals(settings).home,
                limit=limit,
                wait=wait or None,
                ahead=True,
                parking=parking(settings, way),
            )
            with serve_mount(settings, mounted):
                run_until_signal(mounted, ready)

    if background:
        serve_in_background("satchel", serve, settings.state / "mount.log")
    else:
        serve_here(serve)
