# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The Vagrantfile's two machines, and a laptop beside them, each used as its person uses it.

Vagrant and the laptop are this host's programs in the network of a libvirt of the test's own. The
machines are used through `ssh` with what `vagrant ssh-config` says.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hypervisor.libvirtd import Libvirtd

BIN = Path(sys.executable).parent
BOX = "satchel-bookworm"
UP_SECONDS = 3600.0
COMMAND_SECONDS = 1800.0
"""Ends for what hangs: the machines are emulated, and what they run is emulated in them."""


class Room:
    """Programs in the network of a libvirt. What they say on standard error goes to a log each.

    folder: one of the test's own, with a short path.
    """

    def __init__(self, libvirt: Libvirtd, folder: Path) -> None:
        self.libvirt = libvirt
        self.folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def command(
        self, argv: list[str], where: Path, more: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """What to run, and its environment: nsenter begins in the folder / of the room."""
        script = f"cd {shlex.quote(str(where))} && exec {shlex.join(argv)}"
        return [*self.libvirt.within, "sh", "-c", script], {**os.environ, **more}

    def run(
        self, argv: list[str], where: Path, more: Mapping[str, str], seconds: float, text: str = ""
    ) -> str:
        """Run it to its end, which must be a good one; what it said on standard output."""
        command, environment = self.command(argv, where, more)
        began = time.monotonic()
        done = subprocess.run(
            command, env=environment, input=text, capture_output=True, text=True, timeout=seconds,
            check=False,
        )  # fmt: skip
        took = time.monotonic() - began
        print(f"{took:6.1f} s: {shlex.join(argv)[:120]}", flush=True)
        assert done.returncode == 0, (argv, done.stdout[-6000:], done.stderr[-6000:])
        return done.stdout

    def start(self, argv: list[str], where: Path, more: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start it in the background; `close` ends it. Its standard error is to be read."""
        command, environment = self.command(argv, where, more)
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._running.append(process)
        return process

    def close(self) -> None:
        """End what runs in the background."""
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()


class Vagrant:
    """`vagrant` in a copy of the tree, with the box."""

    def __init__(self, room: Room, tree: Path, box: Path) -> None:
        self._room = room
        self._tree = tree
        home = room.folder / "vagrant"
        home.mkdir()
        self._variables = {
            "HOME": str(home),
            "VAGRANT_HOME": str(home / "d"),
            "VAGRANT_DEFAULT_PROVIDER": "libvirt",
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "VAGRANT_NO_COLOR": "1",
            "SATCHEL_VAGRANT_BOX": BOX,
            "SATCHEL_VAGRANT_DRIVER": "qemu",
            "LC_ALL": "C.UTF-8",
        }
        self("box", "add", "--name", BOX, str(box))

    def __call__(self, *words: str) -> str:
        argv = ["vagrant", *words]
        return self._room.run(argv, self._tree, self._variables, UP_SECONDS)

    def machine(self, name: str) -> "Machine":
        """One that is up."""
        config = self._room.folder / f"{name}.ssh"
        config.write_text(self("ssh-config", name))
        return Machine(self._room, name, config)


class Machine:
    """A machine, by ssh, as the user `vagrant`."""

    def __init__(self, room: Room, name: str, config: Path) -> None:
        self._room = room
        self._ssh = ["ssh", "-F", str(config), name]

    def types(self, command: str) -> str:
        """What a command says that must succeed."""
        return self._room.run([*self._ssh, command], Path("/"), {}, COMMAND_SECONDS)

    def sees(self, command: str) -> Any:
        """The JSON that it answers."""
        return json.loads(self.types(f"{command} --json"))

    def writes(self, path: str, text: str) -> None:
        """Write a file, in a folder that is made."""
        folder = shlex.quote(str(Path(path).parent))
        command = f"mkdir -p {folder} && cat >{shlex.quote(path)}"
        self._room.run([*self._ssh, command], Path("/"), {}, COMMAND_SECONDS, text)

    def starts(self, command: str) -> subprocess.Popen[str]:
        """In the background, at a terminal that stays open."""
        return self._room.start([*self._ssh, command], Path("/"), {})

    def takes(self, folder: Path, to: str) -> None:
        """Bring a folder of the host there."""
        ssh = shlex.join([*self._ssh, f"mkdir -p {to} && tar -C {to} -xf -"])
        self._pipe(f"tar -C {shlex.quote(str(folder))} -Scf - . | {ssh}")

    def gives(self, folder: str, to: Path) -> None:
        """Bring a folder from there to the host."""
        to.mkdir(exist_ok=True)
        ssh = shlex.join([*self._ssh, f"tar -C {folder} -Scf - ."])
        self._pipe(f"{ssh} | tar -C {shlex.quote(str(to))} --no-same-owner -xf -")

    def _pipe(self, pipeline: str) -> None:
        self._room.run(["bash", "-o", "pipefail", "-c", pipeline], Path("/"), {}, COMMAND_SECONDS)

    def shows(self, command: str) -> tuple[str, str]:
        """The code and the place that a command shows which pairs; it goes on."""
        process = self.starts(command)
        assert process.stderr
        said = ""
        for line in process.stderr:
            said += line
            if typed := re.search(r"([0-9]{4}-[0-9]{4}) --at (\S+)", line):
                return typed[1], typed[2]
        raise AssertionError(said)


class Laptop:
    """The programs of this host, with folders of a person's own."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.folder = room.folder / "l"
        (self.folder / "run").mkdir(parents=True, mode=0o700)
        self._variables = {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
        }

    def runs(self, *argv: str) -> str:
        """What a program says that must succeed."""
        return self._room.run([*argv], self.folder, self._variables, COMMAND_SECONDS)

    def types(self, *words: str) -> str:
        """The same of `satchel`."""
        return self.runs(str(BIN / "satchel"), *words)

    def sees(self, *words: str) -> Any:
        """What it answers, as JSON."""
        return json.loads(self.types(*words, "--json"))

    def may_see(self, *words: str) -> Any:
        """The same; None if the program ends badly."""
        argv = [str(BIN / "satchel"), *words, "--json"]
        command, environment = self._room.command(argv, self.folder, self._variables)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def session(self, *words: str) -> subprocess.Popen[str]:
        """`satchel run` in the background."""
        argv = [str(BIN / "satchel"), "run", *words]
        return self._room.start(argv, self.folder, self._variables)
