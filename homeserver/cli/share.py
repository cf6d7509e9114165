# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home share`: folders that are one tree of files for every node."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import click

from console import json_option, show, size
from homeserver.cli.context import Context
from homeserver.places import with_identity
from satchel.errors import ConflictError, UsageError
from satchel.names import host_name

COLUMNS = ("name", "path", "policy", "relaxation", "log", "nodes")
NODE_COLUMNS = ("node", "name", "connected", "heard", "open_files", "blocks", "behind", "since")
RULE_COLUMNS = ("glob", "policy", "relaxation", "mark")
GRANT_COLUMNS = ("share", "service", "surrogate", "writable")
FILE_COLUMNS = ("path", "owned_blocks", "native")
POLICY_HELP = (
    "When other machines get a write: write-invalidate (when they ask), write-update (at once), or "
    "delayed-update (when they are expected to ask)."
)


@click.group("share")
def command() -> None:
    """Folders that are shared with other machines."""


def _seconds(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """JSON has neither nan nor inf."""
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise UsageError("--relaxation must be seconds, at least 0", why=f"it is {value}")
    return value


@command.command("add")
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", help="The name of the share [default: the folder's name].")
@click.option(
    "--policy",
    default="delayed-update",
    show_default=True,
    help=POLICY_HELP,
)
@click.option(
    "--relaxation",
    type=float,
    callback=_seconds,
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="How old a copy may be that a read is answered from.",
)
@click.option(
    "--log",
    type=click.Choice(["sync", "async", "off"]),
    default="async",
    show_default=True,
    help="When home logs a write: before it returns (sync), soon after (async), or not at all. An "
    "fsync waits for home in any case.",
)
@json_option
@click.pass_obj
def add(
    context: Context,
    path: Path,
    name: str | None,
    policy: str,
    relaxation: float,
    log: str,
    as_json: bool,
) -> None:
    """Share the folder PATH. Its content stays in place."""
    path, own = path.resolve(), context.settings.data.resolve()
    if path == own or path in own.parents or own in path.parents:
        raise ConflictError(
            f"cannot share {path}",
            why=f"the home's own folder {own} would be shared, with the owner's key",
            fix="share a folder beside it",
        )
    name = name or path.name
    if not name:
        raise UsageError("the share needs a name", fix="give it with --name")
    body = {
        "name": name,
        "path": str(path),
        "policy": policy,
        "relaxation": relaxation,
        "log": log,
    }
    context.daemon().post_json(with_identity("/v1/shares", path), body)
    show({"added": name}, as_json=as_json)


@command.command("set")
@click.argument("name")
@click.option(
    "--path",
    "glob",
    metavar="GLOB",
    help="Only for files whose path in the share matches; * also matches slashes.",
)
@click.option("--policy", help=POLICY_HELP)
@click.option(
    "--relaxation",
    type=float,
    callback=_seconds,
    metavar="SECONDS",
    help="How old a copy may be that a read is answered from.",
)
@click.option(
    "--mark",
    type=click.Choice(["private", "immutable", "mapped", "none"]),
    help="private: only the node that opens such a file first uses it. immutable: it "
    "cannot be changed once it is written. mapped: several mounts may map it at once; "
    "SQLite may then lose commits.",
)
@click.option("--forget", is_flag=True, help="Remove the rule for these files.")
@json_option
@click.pass_obj
def set_terms(
    context: Context,
    name: str,
    glob: str | None,
    policy: str | None,
    relaxation: float | None,
    mark: str | None,
    forget: bool,
    as_json: bool,
) -> None:
    """Change the rules for a share or for files in it.

    They count for files that are opened from then on. Of several rules for a file, the last one
    that you set counts.
    """
    mark = "" if mark == "none" else mark
    body = {"glob": glob, "policy": policy, "relaxation": relaxation, "forget": forget}
    body["mark"] = mark
    if not forget and (policy, relaxation, mark) == (None, None, None):
        raise UsageError("nothing is to be changed", fix="give --policy, --relaxation or --mark")
    record = context.daemon().post_json(f"/v1/shares/{name}/terms", body)
    if as_json:
        show(record, as_json=True)
        return
    everything = {"glob": "", "policy": record["policy"], "relaxation": record["relaxation"]}
    show([everything, *record["rules"]], as_json=False, columns=RULE_COLUMNS)


@command.command("ls")
@json_option
@click.pass_obj
def ls(context: Context, as_json: bool) -> None:
    """List the shares."""
    rows = context.daemon().get_json("/v1/shares")
    empty = "no folder is shared: `satchel-home share add FOLDER` shares one"
    show(rows, as_json=as_json, columns=COLUMNS, empty=empty)


@command.command("rm")
@click.argument("name")
@json_option
@click.pass_obj
def rm(context: Context, name: str, as_json: bool) -> None:
    """Stop sharing the folder. Its content stays in place."""
    context.daemon().delete(f"/v1/shares/{name}")
    show({"removed": name}, as_json=as_json)


@command.command("grant")
@click.argument("share")
@click.argument("service")
@click.argument("surrogate")
@click.option("--read-only", is_flag=True, help="The guest may only read.")
@json_option
@click.pass_obj
def grant(
    context: Context, share: str, service: str, surrogate: str, read_only: bool, as_json: bool
) -> None:
    """Let SERVICE's guest read and write SHARE at SURROGATE.

    SURROGATE is its name in the client's settings. From the next replica there on, the guest gets
    content at that surrogate and no longer from home. The surrogate may then do with the share what
    the service may.
    """
    body = {"share": share, "service": service, "surrogate": surrogate, "writable": not read_only}
    context.daemon().post_json("/v1/share-grants", body)
    show({"granted": share, "at": surrogate}, as_json=as_json)


@command.command("revoke")
@click.argument("share")
@click.argument("service")
@click.argument("surrogate")
@json_option
@click.pass_obj
def revoke(context: Context, share: str, service: str, surrogate: str, as_json: bool) -> None:
    """Withdraw a grant. A replica that uses it continues through home."""
    context.daemon().delete(f"/v1/share-grants/{share}/{service}/{surrogate}")
    show({"revoked": share, "at": surrogate}, as_json=as_json)


@command.command("grants")
@json_option
@click.pass_obj
def grants(context: Context, as_json: bool) -> None:
    """List the grants."""
    rows = context.daemon().get_json("/v1/share-grants")
    empty = "no grant: `satchel-home share grant SHARE SERVICE SURROGATE` makes one"
    show(rows, as_json=as_json, columns=GRANT_COLUMNS, empty=empty)


@command.command("mount")
@click.argument("name")
@click.argument("place", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--background", is_flag=True, help="Return when it is mounted.")
@click.option(
    "--buffer-mib",
    type=click.IntRange(min=1),
    help="MiB of memory for content from elsewhere [default: 1/32 of all].",
)
@click.pass_obj
def mount(
    context: Context, name: str, place: Path, background: bool, buffer_mib: int | None
) -> None:
    """Mount the share NAME at DIR.

    It stays until Ctrl-C or `fusermount3 -u DIR`. Programs at home use DIR and not the shared
    folder itself: at DIR they read the latest of every node, and every node sees what they write at
    once. In the background it logs to `mount.log` in the folder of the setting `data`.
    """
    from shares.mount import (  # most commands need no mount
        MountedShare,
        Ready,
        run_until_signal,
        serve_here,
        serve_in_background,
    )
    from wire import Caller

    settings, mountpoint = context.settings, place.absolute()
    root = Path(context.daemon().get_json(f"/v1/shares/{name}")["path"]).resolve()
    if root in (mountpoint.resolve(), *mountpoint.resolve().parents):
        raise ConflictError(f"cannot mount {name} at {mountpoint}", why="that is in the share")

    def serve(ready: Ready) -> None:
        mounted = MountedShare(
            partial(Caller, settings.share_socket),
            name,
            host_name(),
            mountpoint,
            settings.data / "mounts",
            limit=None if buffer_mib is None else buffer_mib << 20,
        )
        run_until_signal(mounted, ready)

    if background:
        serve_in_background("satchel-home", serve, settings.data / "mount.log")
    else:
        serve_here(serve)


@command.command("status")
@click.argument("name", required=False)
@json_option
@click.pass_obj
def status(context: Context, name: str | None, as_json: bool) -> None:
    """Show the nodes of a share, or of all, and their lag.

    If one node alone has a file
    open, only that node knows how far home is behind: run `satchel share status` there.
    """
    daemon = context.daemon()
    names = [name] if name else [share["name"] for share in daemon.get_json("/v1/shares")]
    found = [daemon.get_json(f"/v1/shares/{each}") for each in names]
    if as_json:
        show(found, as_json=True)
        return
    for share in found:
        _tell(share)


def _tell(share: dict[str, Any]) -> None:
    lag = share["log"]
    summary = {
        "share": share["share"],
        "path": share["path"],
        "policy": share["policy"],
        "relaxation": f"{share['relaxation']:g} s",
        "write_log": f"{lag['mode']}, {lag['records']} records, {size(lag['bytes'])},"
        f" {lag['seconds']:.1f} s behind",
        "replayed": f"{share['replayed']['records']} records in"
        f" {share['replayed']['seconds'] * 1000:.1f} ms",
        "locks": share["locks"],
    }
    show(summary, as_json=False)
    nodes = [
        node
        | {
            "heard": f"{node['idle_seconds']:.1f} s ago",
            "blocks": node["behind_blocks"],
            "behind": size(node["behind_bytes"]),
            "since": f"{node['behind_seconds']:.1f} s",
        }
        for node in share["nodes"]
    ]
    show(nodes, as_json=False, columns=NODE_COLUMNS)
    if share["taken_over"]:
        from shares.node import losses  # as `mount` does

        show(losses.rows(share["taken_over"]), as_json=False, columns=losses.COLUMNS)
    if share["conflicts"]:
        copies = [{"conflict_copy": path} for path in share["conflicts"]]
        show(copies, as_json=False, columns=("conflict_copy",))
    if share["rules"]:
        show(share["rules"], as_json=False, columns=RULE_COLUMNS)
    if share["files"]:
        show(share["files"], as_json=False, columns=FILE_COLUMNS)
    if share["traffic"]:
        show(share["traffic"], as_json=False)
