# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a program serves a mount: until a signal ends it, or in the background."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from console import on_signals, tell_manager
from satchel.errors import SatchelError
from shares.mount.mounted import MountedShare

Ready = Callable[[MountedShare], None]


def run_until_signal(mounted: MountedShare, ready: Ready) -> None:
    """Serve it until it is unmounted, or a signal ends the program. Main thread."""
    on_signals(lambda *_: mounted.stop())
    ready(mounted)
    mounted.run()


def serve_here(serve: Callable[[Ready], None]) -> None:
    """serve: mounts, calls what it is given when that is done, and serves."""

    def ready(mounted: MountedShare) -> None:
        click.echo(f"{mounted.share} is mounted at {mounted.mountpoint}", err=True)
        tell_manager("READY=1")

    serve(ready)


def serve_in_background(program: str, serve: Callable[[Ready], None], log: Path) -> None:
    """As `serve_here`, by a process of its own; return when it is mounted, exit where that failed.

    program: what an error that is told begins with; log: what the process says from then on
    """
    told, written = os.pipe()
    if os.fork() == 0:
        os.close(told)
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 0)
        os.dup2(quiet, 1)

        def ready(_: MountedShare) -> None:
            _detach(log)
            os.write(written, b"+")
            os.close(written)

        try:
            serve(ready)
        except SatchelError as error:
            click.echo(f"{program}: {error}", err=True)
            os._exit(error.exit_code)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(written)
    if os.read(told, 1) != b"+":
        _, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status))


def _detach(log: Path) -> None:
    """What is said from now on goes into a file: whoever waits for the terminal's end need not."""
    log.parent.mkdir(parents=True, exist_ok=True)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(written, 2)
    os.close(written)
