# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium was plugged in on the road: sessions of the services on it begin, each a `satchel run`.
The desktop is told where they are used, and when the medium can be pulled out.

Only sealed media are used by themselves. One that is pulled out meanwhile ends nothing: sessions go
on with the journal on this device.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from client.platform.running import session_runs
from client.platform.settings import ClientSettings
from console import DesktopNotifier
from media import eject_media, require_sealed
from satchel.errors import SatchelError, UnavailableError

END_SECONDS = 60.0
"""How long a session may take that was told to end."""


def run_plugged(
    settings: ClientSettings, root: Path, satchel: Sequence[str], desktop: DesktopNotifier
) -> dict[str, Any]:
    """Run the sessions that `plugged_services` names and the medium has, until all have ended; then
    eject it. What `eject_media` says, and the services. satchel: the program, with its options.
    Raises MediaInClear, UnavailableError where no session began, and what eject_media raises; the
    desktop is told why."""
    try:
        carried = {found.service for found in require_sealed(root, settings.media_keys)}
        wanted = [name for name in settings.plugged_services if name in carried]
        begin = [name for name in wanted if not session_runs(settings, name)]
        if not begin:
            return {"services": [], "path": str(root), "unmounted": False}
        desktop.tell(f"Starting {', '.join(begin)} from the medium at {root}.")
        _run(begin, [*satchel, "run", "--media", str(root), "--json"], desktop)
        ejected = eject_media(root, settings.media_keys)
    except SatchelError as error:
        desktop.tell(f"The medium at {root}: {error}", urgent=True)
        raise
    desktop.tell(f"The sessions have ended. {ejected}.", urgent=True)
    return {"services": begin} | asdict(ejected)


def _run(services: Sequence[str], argv: Sequence[str], desktop: DesktopNotifier) -> None:
    """Until all of them have ended. They are told to end where this is interrupted."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(_Session(name, argv)) for name in services]
        running = [session for session in sessions if session.begun()]
        failed = "; ".join(session.failure for session in sessions if session not in running)
        if not running:
            raise UnavailableError("no session began", why=failed)
        places = ", ".join(f"{session.service} at {session.url}" for session in running)
        ends = " and ".join(f"`satchel stop {session.service}`" for session in running)
        lines = f"You can use {places}. Before you pull the medium out: {ends}."
        desktop.tell(f"{lines} {failed}".strip(), urgent=bool(failed))
        for session in running:
            session.wait()


class _Session:
    """A `satchel run`, until the block ends. url: where it is used, once it has begun."""

    def __init__(self, service: str, argv: Sequence[str]) -> None:
        self.service, self.url, self._said = service, "", ""
        self._process = subprocess.Popen(
            [*argv, service],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout and self._process.stderr
        self._answer, errors = self._process.stdout, self._process.stderr
        self._told = threading.Thread(target=self._tell, args=(errors,), daemon=True)
        self._told.start()

    def begun(self) -> bool:
        """Whether it is used now; else it has ended."""
        text = ""
        for line in self._answer:
            text += line
            if line.startswith("}"):
                self.url = str(json.loads(text)["url"])
                return True
        self.wait()
        return False

    @property
    def failure(self) -> str:
        """Why it has not begun."""
        try:
            why = json.loads(self._said)["error"]["what"]
        except (ValueError, KeyError, TypeError):
            why = self._said.strip()
        return f"{self.service} does not run: {why}"

    def wait(self) -> None:
        """Until it has ended."""
        self._process.wait()
        self._told.join()

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.wait()
        self._answer.close()

    def _tell(self, errors: IO[str]) -> None:
        """What it says is said here, and its last line is kept."""
        with errors:
            for line in errors:
                self._said = line
                print(line, end="", file=sys.stderr, flush=True)
