# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The whole story on one machine, by its ordinary user: `satchel try`.

Home, two surrogates and the client run as they would on four machines. The stick is a folder. A
service is built, launched and checkpointed, used at one surrogate, moved to the other and back, and
each step says how long it took. What was made is removed at the end, but for the built image.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from console import deaf_to_signals, ready, show, wait_for
from satchel.errors import UnavailableError, UnsupportedError
from satchel.paths import cache_dir
from satchel.polling import FAST_POLL_SECONDS
from testbed.loopback import Loopback
from testbed.roles import PROGRAMS, Roles, page_link

SERVICE = "notes"
HERE, THERE = "a", "b"

JOIN_SECONDS = 300.0
ANSWER_SECONDS = 60.0

NEEDED = {
    "satchel-home": "satchel-home",
    "satchel-surrogate": "satchel-surrogate",
    "sshd": "openssh-server",
    "qemu-system-x86_64": "qemu-system-x86",
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "mmdebstrap": "mmdebstrap",
    "ssh-keygen": "openssh-client",
}
"""Programs, and the Debian packages that have them."""

BODY = json.dumps({"title": "a thought", "text": "written at one surrogate, read at the other"})


def play(port: int, *, once: bool, as_json: bool) -> None:
    """Tell the story, then go on with it until Ctrl-C.

    port: where the service is for a browser; 0: any. once: end after the story.
    Raises UnsupportedError where a program is missing.
    """
    require_programs()
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="satchel-try-"))
        trial = Trial(folder, port, quiet=as_json)
        stack.callback(_put_away, trial, folder)
        trial.at_home()
        trial.on_the_road()
        if as_json:
            show(trial.facts, as_json=True)
        if not once:
            click.echo(
                f"\nIt continues at {trial.url}. Home executes every request as well.", err=True
            )
            for name, link in trial.facts["pages"].items():
                click.echo(f"web page, {name}: {link}", err=True)
            click.echo(f"to look at it: satchel --config {trial.facts['config']} whereis", err=True)
            click.echo("Ctrl-C ends it and removes everything but the built image.", err=True)
            ready()
            wait_for(queue.SimpleQueue())


def _put_away(trial: Trial, folder: Path) -> None:
    """End every process, then remove the folder: a process whose folder is gone cannot end well."""
    deaf_to_signals()
    trial.close()
    shutil.rmtree(folder, ignore_errors=True)


def require_programs() -> None:
    """Raises UnsupportedError that names all that is missing, with the packages."""
    places = f"{PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin"
    missing = [name for name in NEEDED if not shutil.which(name, path=places)]
    if missing:
        packages = " ".join(sorted({NEEDED[name] for name in missing}))
        raise UnsupportedError(
            "cannot try everything on this machine",
            why=f"there is no {', '.join(missing)}",
            fix=f"sudo apt install {packages}",
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise UnsupportedError(
            "cannot try everything on this machine",
            why="this user cannot open /dev/fuse, by which a machine's memory is a file",
            fix="sudo modprobe fuse, and sudo chmod 666 /dev/fuse",
        )


class Trial:
    """The story, step by step. facts: for programs, what each step took and what came of it."""

    def __init__(self, folder: Path, port: int, *, quiet: bool) -> None:
        self._quiet = quiet
        self._port = port
        self._folder = folder
        self._stick = folder / "stick"
        self._images = cache_dir() / "images"
        self._bed = Loopback((HERE, THERE))
        self._roles = Roles(self._bed, folder, self._images)
        self.url = ""
        self.facts: dict[str, Any] = {"steps": {}, "config": str(self._roles.client_config)}

    def at_home(self) -> None:
        """A service is built, launched, and put onto a stick."""
        home = self._roles.home
        with self._step("build the image of a notebook", "up to two minutes, once"):
            self._build()
        with self._step("start a home and two surrogates", "2 s"):
            for role in (home, *self._roles.surrogates.values()):
                role.serving = ("--web", "0")
            self._roles.start()
            home.command("service", "add", SERVICE, "--json")
        with self._step("boot the notebook's machine at home", "3 s with KVM, 20 s without"):
            home.command("launch", SERVICE, "--json")
        with self._step("put a checkpoint onto a stick (a folder)", "10 s"):
            self._stick.mkdir()
            public = self._roles.identity.path.with_suffix(".pub")
            home.command("media", "init", self._stick, "--for", public, "--json")
            home.command("checkpoint", SERVICE, "--media", self._stick, "--json")

    def on_the_road(self) -> None:
        """It is used at one surrogate, moved, and moved back."""
        with self._step("use it, with the stick, near surrogate a", "2 s"):
            argv: list[str | Path] = [
                SERVICE,
                "--media",
                self._stick,
                "--at",
                HERE,
                "--port",
                str(self._port),
                "--web",
                "0",
            ]
            self._roles.start_session(*argv, log=self._folder / "session.log")
            self.url = self.facts["url"] = self._status()["url"]
            pages = {
                "session": page_link(self._folder / "session.log"),
                "home": self._roles.home.page,
            }
            pages |= {
                f"surrogate {name}": role.page for name, role in self._roles.surrogates.items()
            }
            self.facts["pages"] = pages
        self._say(f"    open {self.url} in a browser, if you like")
        note = self._write_note()
        with self._step("have a replica catch up there", "2 s"):
            self._await_joined(HERE)
        for spot in (THERE, HERE):
            with self._step(f"move it to surrogate {spot}; it answers meanwhile", "3 s"):
                self._roles.satchel("move", SERVICE, "--to", spot, "--json")
                self._await_joined(spot)
            self._say(f"    {self._bytes(spot)}; the note is there: {self._sees(note)}")
        self.facts["note"] = self._sees(note)

    def close(self) -> None:
        """End everything, in the order in which it depends on each other."""
        self._say("")
        with self._step("put everything away", "3 s"), contextlib.suppress(Exception):
            if self.url:
                self._roles.satchel("stop", SERVICE, "--json")
        try:
            self._roles.stop()
        finally:
            self._bed.close()

    @contextlib.contextmanager
    def _step(self, what: str, forecast: str) -> Iterator[None]:
        """One line before, with how long it may take, and what it took behind it."""
        begun = time.monotonic()
        self._say(f"{what} ({forecast}) ...")
        yield
        seconds = time.monotonic() - begun
        self.facts["steps"][what] = round(seconds, 2)
        self._say(f"    done in {seconds:.1f} s")

    def _say(self, line: str) -> None:
        if not self._quiet:
            click.echo(line, err=True)

    def _build(self) -> None:
        """With home's own bar on a terminal."""
        argv = self._roles.home.argv("image", "build", SERVICE)
        done = subprocess.run(
            [*argv, *(["--json"] if self._quiet else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if self._quiet or not sys.stderr.isatty() else None,
            check=False,
            text=True,
        )
        if done.returncode:
            why = (done.stderr or "").strip()[-2000:]
            raise UnavailableError(f"cannot build the image of {SERVICE}", why=why)

    def _status(self) -> dict[str, Any]:
        return dict(self._roles.satchel("status", SERVICE, "--json"))

    def _replica(self, spot: str) -> dict[str, Any]:
        """What the session says of the replica there; empty where there is none."""
        rows = self._status()["replicas"]
        return next((dict(row) for row in rows if row["name"] == spot), {})

    def _await_joined(self, spot: str) -> None:
        """Until the replica there has caught up. Raises UnavailableError where it fails."""
        deadline = time.monotonic() + JOIN_SECONDS
        while (replica := self._replica(spot)).get("state") != "joined":
            if replica.get("state") == "failed" or time.monotonic() > deadline:
                raise UnavailableError(f"no replica at {spot}", why=str(replica.get("error") or ""))
            time.sleep(FAST_POLL_SECONDS)

    def _bytes(self, spot: str) -> str:
        fetched = self._replica(spot).get("fetched_bytes") or {}
        parts = [f"{count / 1e6:.1f} MB from {name}" for name, count in fetched.items() if count]
        return f"it fetched {', '.join(parts) or 'nothing'}"

    def _write_note(self) -> int:
        answer = self._ask("POST", "/api/notes", BODY)
        return int(answer["id"])

    def _sees(self, note: int) -> bool:
        return any(row["id"] == note for row in self._ask("GET", "/api/notes?q=thought")["notes"])

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        address = self.url.split("//", 1)[1].rstrip("/")
        connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            return json.loads(connection.getresponse().read())
