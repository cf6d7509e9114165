# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel share`: what there is to say about the shares that are mounted here."""

from __future__ import annotations

from typing import Any

import click

from client.cli.context import Context, pass_context
from client.shares import mounts, share_way
from console import json_option, show
from satchel.errors import NotFoundError

COLUMNS = ("share", "mountpoint", "home", "files", "behind_blocks", "behind_bytes", "buffered")
TRAFFIC_COLUMNS = ("share", "message", "messages", "bytes")
HOT_COLUMNS = ("share", "file", "block", "policy", "overwritten", "threshold")


@click.group("share")
def command() -> None:
    """Shares of home's."""


@command.command("ls")
@json_option
@pass_context
def ls(context: Context, as_json: bool) -> None:
    """List the shares that home has."""
    with share_way(context.settings) as way:
        show([{"share": name} for name in way.shares], as_json=as_json, columns=("share",))


@command.command("status")
@click.argument("share", required=False)
@json_option
@pass_context
def status(context: Context, share: str | None, as_json: bool) -> None:
    """Show the mounts of this client, or those of SHARE.

    How far home is behind them, what they said to it, and which blocks are written most.
    """
    found = [row for row in mounts(context.settings) if share in (None, row["share"])]
    if not found:
        raise NotFoundError("nothing is mounted here", fix="`satchel mount SHARE DIR`")
    if as_json:
        show(found, as_json=True)
        return
    show([_summary(row) for row in found], as_json=False, columns=COLUMNS)
    click.echo()
    traffic = [
        {"share": row["share"], "message": kind} | counts
        for row in found
        for kind, counts in row["traffic"].items()
    ]
    show(traffic, as_json=False, columns=TRAFFIC_COLUMNS)
    hot = [
        {"share": row["share"], "file": file["file"], "policy": file["policy"]} | block
        for row in found
        for file in row["files"]
        for block in file["hot"]
    ]
    if hot:
        click.echo("\nblocks that are written most")
        show(hot, as_json=False, columns=HOT_COLUMNS)


def _summary(row: dict[str, Any]) -> dict[str, Any]:
    files = row["files"]
    return {
        "share": row["share"],
        "mountpoint": row["mountpoint"],
        "home": "connected" if row["connected"] else "not reached",
        "files": len(files),
        "behind_blocks": sum(file["home_is_behind_blocks"] for file in files),
        "behind_bytes": sum(file["home_is_behind_bytes"] for file in files),
        "buffered": row["buffered_blocks"],
    }
