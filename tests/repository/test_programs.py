# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The three programs' commands: a table of lines, and a module each that is imported to run it."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from satchel.errors import NotFoundError

PROGRAMS = {
    "satchel": "client.cli",
    "satchel-home": "homeserver.cli",
    "satchel-surrogate": "surrogate.cli",
}
EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS)

DAEMON = {"flask", "httpx2", "prometheus_client", "qemu", "waitress"}
"""What no command needs that works alone or asks a daemon."""

OF_MACHINES = {
    *("chunkstore", "guestshares", "hypervisor", "images", "volumes", "replica", "shares"),
}
"""What no command needs that only asks about services."""

HEAVY = DAEMON | OF_MACHINES | {"asyncio", "httpcore2", "rich", "ssl"}
"""What no list of commands needs."""


def run(program: str, *words: str, **environment: str) -> tuple[str, set[str]]:
    """What a program says, and the packages that it imported."""
    done, imported = start(program, *words, **environment)
    done.check_returncode()
    return done.stdout, imported


def start(
    program: str, *words: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """The same of a program that may fail."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", Path(sys.executable).with_name(program), *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    modules = [line.split("|")[-1].strip() for line in done.stderr.splitlines()]
    assert PROGRAMS[program] in modules
    return done, {module.split(".")[0] for module in modules}


def complete(program: str, *words: str) -> tuple[list[str], set[str]]:
    """What a shell offers for the last of the words, and the packages that were imported."""
    name = program.upper().replace("-", "_")
    asked = {"COMP_WORDS": " ".join([program, *words]), "COMP_CWORD": str(len(words))}
    said, imported = run(program, **asked, **{f"_{name}_COMPLETE": "bash_complete"})
    return [line.split(",")[1] for line in said.splitlines()], imported


def commands(program: str) -> dict[str, click.Command]:
    """Every command of a program's modules, by its name."""
    package = importlib.import_module(PROGRAMS[program])
    modules = [
        importlib.import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
    ]
    found = [getattr(module, "command", None) for module in modules]
    return {str(command.name): command for command in found if command}


@EVERY_PROGRAM
def test_its_table_says_what_its_commands_say(program: str) -> None:
    group = importlib.import_module(PROGRAMS[program]).group
    context = click.Context(group)
    real = commands(program)
    assert group.list_commands(context) == sorted(real)
    for name, command in real.items():
        listed = group.get_command(context, name)
        for width in (20, 45, 200):
            assert listed.get_short_help_str(width) == command.get_short_help_str(width)
        assert group.resolve_command(context, [name, "word"]) == (name, command, ["word"])


@EVERY_PROGRAM
def test_its_help_imports_no_command(program: str) -> None:
    """Each list of commands had taken half a second for what only daemons need."""
    said, imported = run(program, "--help")
    assert "  ls " in said
    assert not imported & HEAVY


@EVERY_PROGRAM
def test_completing_a_command_imports_none(program: str) -> None:
    offered, imported = complete(program, "l")
    assert "ls" in offered
    assert not imported & HEAVY
    assert "--json" in complete(program, "ls", "--")[0]


@pytest.mark.parametrize(
    "words",
    [
        *("satchel call", "satchel ls", "satchel media", "satchel move", "satchel status"),
        *("satchel stop", "satchel-home checkpoint", "satchel-home import", "satchel-home media"),
        *("satchel-home prune", "satchel-home stats", "satchel-surrogate status"),
    ],
)
def test_a_command_begins_without_what_only_daemons_need(words: str) -> None:
    program, command = words.split()
    said, imported = run(program, command, "--help")
    assert said.startswith(f"Usage: {words} ")
    assert not imported & DAEMON


def test_a_command_that_runs_begins_without_parts_of_machines(tmp_path: Path) -> None:
    """Here the commands do what they are for: `--help` imports none of what is looked for then."""
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "STATE", "CACHE")}
    done, imported = start("satchel", "ls", "--json", **folders, XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, json.loads(done.stdout)) == (NotFoundError.exit_code, [])
    assert not imported & (DAEMON | OF_MACHINES | {"rich"})


@pytest.mark.parametrize("words", ["move notes --to cafe", "plan notes", "stop notes"])
def test_what_asks_a_session_begins_without_the_network(words: str, tmp_path: Path) -> None:
    """`move` had imported links, HTTP and TLS for the name of home."""
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "STATE", "CACHE")}
    done, imported = start("satchel", *words.split(), **folders, XDG_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == NotFoundError.exit_code
    assert not imported & HEAVY


def test_status_of_no_session_begins_without_parts_of_machines(tmp_path: Path) -> None:
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "STATE", "CACHE")}
    done, imported = start("satchel", "status", "notes", **folders, XDG_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == NotFoundError.exit_code
    assert not imported & (DAEMON | OF_MACHINES | {"rich"})
