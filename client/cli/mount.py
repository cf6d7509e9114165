# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel mount`: a share of home's as a folder."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import click

from client.cli.context import Context, pass_context
from client.settings import ClientSettings
from client.shares import serve_mount, share_way
from overlay.mounts import MountedShare
from satchel.errors import SatchelError

MIB = 1 << 20


@click.command("mount")
@click.argument("names", nargs=-1, metavar="[SHARE] DIR", required=True)
@click.option("--background", is_flag=True, help="Return when it is mounted.")
@click.option("--buffer-mib", type=int, help="MiB of others' content [default: memory / 32].")
@click.option(
    "--wait",
    type=float,
    default=30.0,
    show_default=True,
    help="Seconds for which programs wait for a home that is not reached, until they get an error; "
    "0: for ever.",
)
@pass_context
def command(
    context: Context, names: tuple[str, ...], background: bool, buffer_mib: int | None, wait: float
) -> None:
    """Mount SHARE of home's at DIR, until Ctrl-C or `fusermount3 -u DIR`.

    SHARE can be left out where home has one only. Needs no root. Whatever home has not yet when it
    is unmounted is sent before the command ends. In the background it logs to `mount.log` in the
    folder of the setting `state`.
    """
    if len(names) > 2:
        raise click.UsageError("say SHARE and DIR, or DIR alone")
    share, place = (None, names[0]) if len(names) == 1 else names
    limit = None if buffer_mib is None else buffer_mib * MIB
    patience = wait or None
    mountpoint = Path(place).absolute()
    if not background:
        _mount(context.settings, share, mountpoint, limit, patience, None)
        return
    _in_background(context.settings, share, mountpoint, limit, patience)


def _mount(
    settings: ClientSettings,
    share: str | None,
    mountpoint: Path,
    limit: int | None,
    wait: float | None,
    ready: int | None,
) -> None:
    """Until it is unmounted. ready: a descriptor that is told when it is mounted."""
    settings.run.mkdir(parents=True, exist_ok=True, mode=0o700)
    with share_way(settings) as way:
        mounted = MountedShare(
            way.call,
            way.choose(share),
            settings.client_name,
            mountpoint,
            settings.data / "shares",
            limit=limit,
            wait=wait,
        )
        signal.signal(signal.SIGTERM, lambda *_: mounted.stop())
        signal.signal(signal.SIGINT, lambda *_: mounted.stop())
        server = serve_mount(settings, mounted)
        try:
            if ready is None:
                click.echo(f"{mounted.share} is mounted at {mountpoint}", err=True)
            else:
                _detach(settings.state / "mount.log")
                os.write(ready, b"+")
                os.close(ready)
            mounted.run()
        finally:
            server.close()


def _in_background(
    settings: ClientSettings,
    share: str | None,
    mountpoint: Path,
    limit: int | None,
    wait: float | None,
) -> None:
    """A process of its own serves the mount; this one ends when that is mounted, or has failed."""
    told, ready = os.pipe()
    if os.fork() == 0:
        os.close(told)
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 0)
        os.dup2(quiet, 1)
        try:
            _mount(settings, share, mountpoint, limit, wait, ready)
        except SatchelError as error:
            click.echo(f"satchel: {error}", err=True)
            os._exit(error.exit_code)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(ready)
    if os.read(told, 1) != b"+":
        _, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status))


def _detach(log: Path) -> None:
    """What is said from now on goes into a file: whoever waits for the terminal's end need not."""
    log.parent.mkdir(parents=True, exist_ok=True)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(written, 2)
    os.close(written)
