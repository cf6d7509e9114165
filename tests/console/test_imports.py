# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What each command imports before it does anything, counted in modules and not in seconds.

A hundred modules of ours take about 40 ms on a slow host. Most commands ask a daemon, and somebody
waits for them: a move, a status, the door behind an ssh connection.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 200
DAEMONS_ONLY = {"flask", "werkzeug", "waitress", "h11", "replica", "shares", "guestshares"}
"""What takes longest, and is of use to what serves something."""

DO_IT_THEMSELVES = {
    "client.cli.run": "is the session",
    "client.cli.mount": "serves a mount",
    "client.cli.share": "reads what mounts have left",
    "client.cli.doctor": "compares replicas",
    "client.cli.whereis": "reads media",
    "client.cli.log": "reads media",
    "client.cli.ls": "asks home over OpenSSH",
    "client.cli.media": "reads media",
    "homeserver.cli.serve": "is the daemon",
    "homeserver.cli.media": "reads and writes media where no daemon runs",
    "homeserver.cli.dump": "reads every format",
    "homeserver.cli.repair": "fetches chunks as a daemon does",
    "homeserver.cli.image": "builds images where no daemon runs",
    "surrogate.cli.serve": "is the daemon",
}
COMMANDS = [
    f"{package}.cli.{path.stem}"
    for package in ("client", "homeserver", "surrogate")
    for path in sorted((ROOT / package / "cli").glob("*.py"))
    if path.stem != "__init__"
]


def imported(module: str) -> set[str]:
    """Modules that are there once that one is, and were not when Python had started."""
    code = f"import sys; b = set(sys.modules); import {module}; print(*(set(sys.modules) - b))"
    return {*subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).split()}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in DO_IT_THEMSELVES])
def test_a_command_that_asks_a_daemon_imports_little(command: str) -> None:
    found = imported(command)
    assert DAEMONS_ONLY.isdisjoint(found), DAEMONS_ONLY & found
    assert len(found) <= MOST


def test_what_does_it_itself_is_a_command() -> None:
    assert DO_IT_THEMSELVES.keys() <= {*COMMANDS}
