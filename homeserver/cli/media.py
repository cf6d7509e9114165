# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home media`: portable media. MEDIA is where it is mounted, or its UUID."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from console import DesktopNotifier, bar, json_option, note, show
from homeserver.cli.context import Context
from homeserver.cli.doubtful import doubtful_option
from homeserver.clients import paired_keys
from homeserver.home import media_signing, owner_of
from homeserver.media.budget import LINK_RATE, LINK_SECONDS, parse_size
from homeserver.media.care import media_contents, recover_media, verify_media
from homeserver.media.carry import ALL_OF_IT
from homeserver.media.plugged import sync_plugged
from homeserver.media.unsealed import UnsealedPolicy
from homeserver.places import with_identity
from homeserver.settings import HomeSettings
from media import (
    Media,
    NewSeal,
    await_media,
    eject_media,
    find_media,
    media_uuid,
    mounted_media,
    new_seal,
)
from satchel.errors import IntegrityError, UsageError
from satchel.progress import Progress

MOUNTED = ("uuid", "path", "generation", "checkpoints", "free_bytes", "copies")
LOGGED = ("service", "checkpoint", "operation", "created", "logged")
ON_MEDIUM = (*LOGGED, "generations", "whole", "left_out", "pieces")


@click.group("media")
def command() -> None:
    """Portable media: anything mounted that holds files. MEDIA is its path or its UUID."""


recipients_option = click.option(
    "--for",
    "recipients",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="The SSH public key of a client that may open it; repeatable.",
)


@command.command("init")
@click.argument("root")
@recipients_option
@click.option("--unsealed", is_flag=True, help="Write to it in clear: a finder can read it.")
@json_option
@click.pass_obj
def init(
    context: Context, root: str, recipients: tuple[Path, ...], unsealed: bool, as_json: bool
) -> None:
    """Prepare the medium mounted at ROOT. Other files on it are left alone.

    It is sealed: a finder learns only how much is on it. Home can open it, and so can the clients
    that `--for` names, by default those that are paired, and a holder of the recovery phrase. The
    phrase is printed once.
    """
    if unsealed and recipients:
        raise UsageError("an unsealed medium needs no keys", fix="leave out --for or --unsealed")
    place = find_media(root)
    seal = None if unsealed else _seal(context.settings, recipients, paired_keys())
    with Media.init(place, seal, context.settings.media_keys) as media:
        made = {"media": str(place), "uuid": media.uuid, "sealed": media.seal is not None}
    if not place.is_mount():
        note(f"{place} is a folder and no mounted medium: what is written stays on this disk.")
    show(made | ({"phrase": seal.phrase} if seal else {}), as_json=as_json)
    if seal and not as_json:
        note("Write the phrase down. It is kept nowhere, and opens the medium without home.")


def _seal(settings: HomeSettings, recipients: tuple[Path, ...], paired: dict[str, str]) -> NewSeal:
    sign = media_signing(owner_of(settings))
    keys = [path.read_text() for path in recipients] or [*paired]
    if paired and not recipients:
        note(f"the paired clients can open it: {', '.join(sorted(paired.values()))}")
    return new_seal(keys, sign=sign)


@command.command("rotate")
@click.argument("media")
@recipients_option
@doubtful_option
@json_option
@click.pass_obj
def rotate(
    context: Context, media: str, recipients: tuple[Path, ...], doubtful: str, as_json: bool
) -> None:
    """Give a sealed medium another key.

    Home gets the new key, and so do the clients that `--for` names and a new recovery phrase. The
    old key still opens the present content, but no later writes. If the command is interrupted, run
    it again.
    """
    root = find_media(media)
    public_keys = [path.read_text() for path in recipients]
    if context.serving:
        body = {"media": str(root), "keys": public_keys, "doubtful": doubtful}
        route = with_identity("/v1/media/rotate", root)
        answer = context.follow("rotate", route, body, quiet=as_json)
    else:
        with context.home() as home:
            answer = asdict(home.rotate(root, public_keys, UnsealedPolicy(doubtful)))
    show(answer, as_json=as_json)
    if not as_json:
        note("Write the phrase down. It is kept nowhere, and the one before opens nothing new.")


@command.command("revoke")
@click.argument("media")
@click.pass_obj
def revoke(context: Context, media: str) -> None:
    """Refuse a sealed medium that was lost, from now on.

    MEDIA is its UUID, or where it is mounted. Home forgets its key, and clients refuse it once they
    have reached home again.
    """
    uuid = media_uuid(Path(media)) if Path(media).is_dir() else media
    context.settings.media_keys.revoke(uuid)


@command.command("ls")
@click.argument("media", required=False)
@json_option
@click.pass_obj
def ls(context: Context, media: str | None, as_json: bool) -> None:
    """List the checkpoints on MEDIA, or all media."""
    keys = context.settings.media_keys
    rows = media_contents(find_media(media), keys) if media else mounted_media(keys)
    where = f"on {media}" if media else "on anything that is mounted"
    empty = f"no checkpoint {where}: `satchel-home checkpoint SERVICE --media PATH` writes one"
    show(rows, as_json=as_json, columns=ON_MEDIUM if media else MOUNTED, empty=empty)


@command.command("sync")
@click.argument("media")
@click.option("--service", "services", multiple=True, help="Only this service; repeatable.")
@click.option(
    "--budget",
    metavar="SIZE",
    help="How many bytes the checkpoints may take on the medium, such as 2GB. It gets what "
    "machines will most probably touch. The rest comes from home.",
)
@doubtful_option
@json_option
@click.pass_obj
def sync(
    context: Context,
    media: str,
    services: tuple[str, ...],
    budget: str | None,
    doubtful: str,
    as_json: bool,
) -> None:
    """Copy home's newest checkpoints to MEDIA. No machine is paused.

    It writes only chunks that the medium lacks. After Ctrl-C, or if you pull the medium out, it
    keeps its previous checkpoints, and the next sync continues from the copied part.
    """
    root, most = find_media(media), parse_size(budget) if budget else None
    with bar("sync", quiet=as_json) as progress:
        answer = _synced(context, root, progress, services, doubtful, most)
    left_out = answer.pop("left_out") if not as_json else {}
    show(answer, as_json=as_json)
    for name, left in left_out.items():
        note(_told(name, left))
    if not answer["checkpoints"]:
        note("home has no checkpoint: `satchel-home checkpoint SERVICE` takes one")


def _told(service: str, left: dict[str, Any]) -> str:
    """What a medium lacks of a service, and what that costs."""
    what = f"{service}: {left['bytes'] / 1e6:.0f} MB are left out and come from home when touched"
    if left["likely"] is None:
        return f"{what}; no profile says how much that will be"
    return (
        f"{what}; probably {left['likely']} blocks of them are, which takes {left['seconds']} s "
        f"over a way to home of {LINK_SECONDS * 1e3:.0f} ms and {LINK_RATE * 8e-6:.0f} Mb/s"
    )


def _synced(
    context: Context,
    root: Path,
    progress: Progress,
    services: tuple[str, ...] = (),
    doubtful: str = UnsealedPolicy.REFUSE.value,
    budget: int | None = None,
) -> dict[str, Any]:
    """By the daemon where it has the store open."""
    if context.serving:
        most = ALL_OF_IT if budget is None else budget
        body = {
            "media": str(root),
            "services": list(services),
            "doubtful": doubtful,
            "budget": most,
        }
        route = with_identity("/v1/media/sync", root)
        answer: dict[str, Any] = context.ask("sync", route, body, progress)
        return answer
    with context.home() as home:
        return asdict(home.sync(services, root, progress, UnsealedPolicy(doubtful), budget))


@command.command("plugged")
@click.argument("device")
@json_option
@click.pass_obj
def plugged(context: Context, device: str, as_json: bool) -> None:
    """Sync the medium that was plugged in, and eject it.

    It does so only if home.toml has `plugged-sync = true`. systemd runs it, as `satchel-home-
    plugged@`. The desktop shows the progress, and when you can pull the medium out. DEVICE is a
    device, which may be mounted later, or a path. It ignores media that this home did not seal.
    """
    if not context.settings.plugged_sync:
        note("home.toml does not say `plugged-sync = true`: nothing is done")
        return
    root = await_media(device)
    if root is None:
        note(f"{device} has no medium of Satchel's: nothing is done")
        return
    with DesktopNotifier("Satchel at home") as desktop:
        keys = context.settings.media_keys
        again = partial(_synced, context, root, budget=0)
        done = sync_plugged(root, keys, again, desktop)
    show(done, as_json=as_json)


@command.command("defrag")
@click.argument("media")
@json_option
@click.pass_obj
def defrag(context: Context, media: str, as_json: bool) -> None:
    """Store the blocks that a resume reads first in one piece.

    A slow medium reads one piece faster than many. It prints the number of pieces before and after.
    """
    root = find_media(media)
    if context.serving:
        route = with_identity("/v1/media/defrag", root)
        answer = context.follow("defrag", route, {"media": str(root)}, quiet=as_json)
    else:
        with context.home() as home, bar("defrag", quiet=as_json) as progress:
            answer = asdict(home.defragment(root, progress))
    show(answer, as_json=as_json)


@command.command("verify")
@click.argument("media")
@json_option
@click.pass_obj
def verify(context: Context, media: str, as_json: bool) -> None:
    """Read everything on MEDIA and check it. Changes nothing."""
    root = find_media(media)
    with bar("verify", quiet=as_json) as progress:
        report = verify_media(root, progress, context.settings.media_keys)
    show(report, as_json=as_json)
    if not report["ok"]:
        hurt = "; ".join(f"{name}: {why}" for name, why in report["hurt"].items())
        raise IntegrityError(
            f"the medium at {root} is damaged",
            why=hurt or f"{len(report['bad'])} places are no records; no checkpoint needs them",
            fix=f"`satchel-home media recover {media}`, then `satchel-home media sync {media}`",
        )


@command.command("eject")
@click.argument("media")
@json_option
@click.pass_obj
def eject(context: Context, media: str, as_json: bool) -> None:
    """Write out what waits for MEDIA, and unmount it."""
    ejected = eject_media(find_media(media), context.settings.media_keys)
    show(asdict(ejected), as_json=as_json)
    note(str(ejected))


@command.command("recover")
@click.argument("media")
@json_option
@click.pass_obj
def recover(context: Context, media: str, as_json: bool) -> None:
    """Recover the newest whole checkpoints on damaged MEDIA.

    It is for media whose indexes or commits are damaged or lost. It reads every pack, and commits
    the newest whole checkpoint of each service. It removes nothing that the medium still names.
    """
    root = find_media(media)
    with bar("recover", quiet=as_json) as progress:
        mended = recover_media(root, progress, context.settings.media_keys)
        show(asdict(mended), as_json=as_json)
