# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A command in a share that is not mounted: a node in this process, and a library that is preloaded
into the command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from client.device.settings import ClientSettings
from client.shares.way import ShareWay
from satchel.errors import ConflictError, NotFoundError
from satchel.files import claimed
from satchel.names import check_name
from shares.node import Buffer, Member
from shares.preload import PreloadServer, environment

LOOK_SECONDS = 0.2


def run_in_share(
    settings: ClientSettings,
    way: ShareWay,
    share: str,
    root: Path | None,
    session: str | None,
    words: tuple[str, ...],
) -> int:
    """The exit code, as shells have it. Main thread.

    root: an empty folder, or None; session: a name by which a later call goes on with the programs
    of this one, if this process is killed. Raises ConflictError, NotFoundError, and as Member."""
    with _folder(settings, session) as folder:
        seen = folder / "root" / share if root is None else root
        if root is None:
            seen.mkdir(parents=True, exist_ok=True)
        elif session is None and any(root.iterdir()):
            raise ConflictError(f"{root} is not empty", fix="give another folder with --at")
        buffer = Buffer(folder / "blocks")
        member = Member(
            way.call, way.choose(share), settings.client_name, buffer, ahead=session is None
        )
        try:
            server = PreloadServer(member.node, seen, folder, through=session is not None)
            try:
                return _run(server, words)
            finally:
                server.close()
        finally:
            member.close()


@contextmanager
def _folder(settings: ClientSettings, session: str | None) -> Iterator[Path]:
    """One of this call's, or the session's, which stays when this process is killed."""
    if session is None:
        with TemporaryDirectory(prefix="r", dir=settings.run) as place:
            yield Path(place)
        return
    check_name(session, "session")
    folder = settings.run / f"session-{session}"
    folder.mkdir(exist_ok=True, mode=0o700)
    with claimed(folder / "lock") as ours:
        if not ours:
            raise ConflictError(f"the session {session} is in use")
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def _run(server: PreloadServer, words: tuple[str, ...]) -> int:
    """Until the command is over, and no program has a file open, of an earlier call neither."""
    with _interrupts_ignored():
        try:
            process = subprocess.Popen(
                words, cwd=server.root, env={**os.environ, **environment(server)}
            )
        except OSError as error:
            raise NotFoundError(f"cannot run {words[0]}", why=str(error)) from error
        code = process.wait()
        while server.used:
            time.sleep(LOOK_SECONDS)
    return code if code >= 0 else 128 - code


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ctrl-C is the command's."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
