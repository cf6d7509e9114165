# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel share`: what there is to say about the shares that are mounted here."""

from __future__ import annotations

from typing import Any

import click

from client.platform.settings import ClientSettings
from client.shares import (
    journals,
    left_behind,
    mount_row,
    mounts,
    share_way,
    tell_mounts,
)
from console import json_option, note, show, size
from satchel.errors import NotFoundError
from shares.mount import HomeIsBehind, waits
from shares.node import losses

COLUMNS = (
    "share",
    "mountpoint",
    "home",
    "files",
    "blocks",
    "behind",
    "since",
    "buffered",
    "conflicts",
)
WAIT_SECONDS = 30.0
"""Without a connection, until what waits is left for the next time."""

TRAFFIC_COLUMNS = ("share", "message", "messages", "bytes")
SWITCH_COLUMNS = ("share", "mountpoint", "files", "open")
HOT_COLUMNS = ("share", "path", "block", "policy", "overwritten", "threshold")


@click.group("share")
def command() -> None:
    """Folders at home that are shared with other machines."""


@command.command("ls")
@json_option
@click.pass_obj
def ls(settings: ClientSettings, as_json: bool) -> None:
    """List the shares that home has."""
    with share_way(settings) as way:
        show([{"share": name} for name in way.shares], as_json=as_json, columns=("share",))


@command.command("recover")
@click.argument("share", required=False)
@json_option
@click.pass_obj
def recover(settings: ClientSettings, share: str | None, as_json: bool) -> None:
    """Send home the writes that ended mounts have left.

    A mount that was killed, or unmounted while home was unreachable, keeps its unsent writes in a
    journal. If another node has changed a file meanwhile, your version becomes a conflict copy
    beside it. The command skips mounts that are in use. Ends with exit code 8 if some writes still
    wait.
    """
    kept = journals(settings)
    names = sorted({left.note.share for left in kept.left(share)})
    done = []
    if names:
        with share_way(settings) as way:
            for name in names:
                told = (lambda line: None) if as_json else click.echo
                done += kept.recover(name, way.call, WAIT_SECONDS, told)
    rows = [each.status() for each in done]
    if as_json:
        show(rows, as_json=True)
    elif not names:
        click.echo("nothing waits for home")
    for left in kept.left(share):
        raise HomeIsBehind(waits(left), fix="try again when home is reached")


@command.command("status")
@click.argument("share", required=False)
@json_option
@click.pass_obj
def status(settings: ClientSettings, share: str | None, as_json: bool) -> None:
    """Show the mounts of this client, or those of SHARE.

    It shows how much home lacks (blocks, bytes, seconds), and the messages that were sent. It lists
    conflict copies, nodes that home has dropped, and the most written blocks. A mount that has
    ended is listed until home has all its writes. At home, `satchel-home share status` shows every
    node.
    """
    found = [
        row for row in (*mounts(settings), *left_behind(settings)) if share in (None, row["share"])
    ]
    damaged = journals(settings).damaged()
    for path in damaged:
        note(f"{path} is a journal that could not be read")
    if not found:
        what = "nothing" if share is None else f"no share {share}"
        raise NotFoundError(f"{what} is mounted here", fix="`satchel mount SHARE DIR`")
    if as_json:
        show(found, as_json=True)
        return
    show([_summary(row) for row in found], as_json=False, columns=COLUMNS)
    _tell_mounts([row for row in found if "traffic" in row])
    for row in found:
        if "folder" in row:
            click.echo(
                f"\n{row['files']} files of {row['mountpoint']} wait in {row['folder']}; "
                f"`satchel share recover {row['share']}` sends them"
            )


def _tell_mounts(found: list[dict[str, Any]]) -> None:
    conflicts = [
        {"share": row["share"], "conflict_copy": path} for row in found for path in row["conflicts"]
    ]
    if conflicts:
        click.echo("\nfiles that others have changed meanwhile, and what was written here")
        show(conflicts, as_json=False, columns=("share", "conflict_copy"))
    click.echo()
    traffic = [
        {"share": row["share"], "message": kind} | counts
        for row in found
        for kind, counts in row["traffic"].items()
    ]
    show(traffic, as_json=False, columns=TRAFFIC_COLUMNS)
    lost = [
        {"share": row["share"]} | one for row in found for one in losses.rows(row["taken_over"])
    ]
    if lost:
        click.echo("\nnodes that home went on without, and what it wrote into files of their logs")
        show(lost, as_json=False, columns=("share", *losses.COLUMNS))
    hot = [
        {"share": row["share"], "path": _path(file), "policy": file["policy"]} | block
        for row in found
        for file in row["files"]
        for block in file["hot"]
    ]
    if hot:
        click.echo("\nblocks that are written most")
        show(hot, as_json=False, columns=HOT_COLUMNS)


@command.command("offloaded")
@click.argument("share", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@json_option
@click.pass_obj
def offloaded(
    settings: ClientSettings, share: str | None, paths: tuple[str, ...], as_json: bool
) -> None:
    """Announce that a task has moved from here to another machine.

    When it returns, home has the local writes to the files at PATH below SHARE, or to all files.
    This node gives up files that no program has open, so the task opens them without a wait.
    `satchel move` runs it by itself.
    """
    _switch(settings, "offloaded", share, paths, as_json)


@command.command("returned")
@click.argument("share", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@json_option
@click.pass_obj
def returned(
    settings: ClientSettings, share: str | None, paths: tuple[str, ...], as_json: bool
) -> None:
    """Announce that a task has come back from another machine.

    The files at PATH below SHARE are opened here ahead of programs, with the first 64 KiB of each.
    Without PATH, these are the files that `satchel share offloaded` gave up.
    """
    _switch(settings, "returned", share, paths, as_json)


def _switch(
    settings: ClientSettings,
    event: str,
    share: str | None,
    paths: tuple[str, ...],
    as_json: bool,
) -> None:
    told = tell_mounts(settings, event, share, list(paths) or None)
    if not told:
        what = "nothing" if share is None else f"no share {share}"
        raise NotFoundError(f"{what} is mounted here", fix="`satchel mount SHARE DIR`")
    show(told, as_json=as_json, columns=SWITCH_COLUMNS)


def _summary(row: dict[str, Any]) -> dict[str, Any]:
    row = mount_row(row)
    return row | {"behind": size(row["bytes"]), "since": f"{row['seconds']:.1f} s"}


def _path(file: dict[str, Any]) -> str:
    """A file whose name was forgotten since it was opened has its number."""
    return str(file["path"] or f"file {file['file']}")
