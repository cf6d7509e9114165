# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A desktop that shows notifications: python-dbusmock's, on a bus of the test's own."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.headless import running
from tests.needs import requires
from tests.waiting import eventually

MOCK = "/usr/bin/python3"
"""Debian's, for which dbusmock is installed."""

DESKTOP = requires("dbus-daemon", "gdbus")

NOTIFY = re.compile(r'^\S+ Notify "Satchel[^"]*" (\d+) "[^"]*" "([^"]*)" "(.*?)" \[.*?\] (.*) \S+$')
"""As dbusmock logs a call. The number is that of the notification that is replaced."""

CONFIGURATION = """<busconfig><type>session</type><listen>unix:path={socket}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy></busconfig>
"""


@dataclass(frozen=True)
class Notified:
    """One call of Notify. replaces: 0 for a new one."""

    replaces: int
    title: str
    text: str
    hints: str


@dataclass(frozen=True)
class MockDesktop:
    """address: of its bus, for DBUS_SESSION_BUS_ADDRESS"""

    address: str
    log: Path

    def shown(self) -> list[Notified]:
        found = map(NOTIFY.match, self.log.read_text().splitlines())
        return [Notified(int(m[1]), m[2], m[3], m[4]) for m in found if m]

    def texts(self) -> list[str]:
        return [notified.text for notified in self.shown()]


@contextlib.contextmanager
def bus(folder: Path) -> Iterator[str]:
    """The address of a bus on which nobody is."""
    folder.mkdir()
    socket, configuration = folder / "bus", folder / "bus.conf"
    configuration.write_text(CONFIGURATION.format(socket=socket))
    argv = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile"]
    with (folder / "bus.log").open("wb") as log, running(argv, {}, log, log):
        assert eventually(socket.exists)
        yield f"unix:path={socket}"


@contextlib.contextmanager
def mock_desktop(folder: Path, capabilities: str = "body body-markup") -> Iterator[MockDesktop]:
    with bus(folder) as address:
        log = folder / "calls"
        argv = [MOCK, "-m", "dbusmock", "--session", "--template", "notification_daemon"]
        argv += ["--logfile", str(log), "--parameters", f'{{"capabilities": "{capabilities}"}}']
        environment = {"DBUS_SESSION_BUS_ADDRESS": address}
        with (folder / "log").open("wb") as said, running(argv, environment, said, said):
            assert eventually(lambda: answers(address)), (folder / "log").read_text()
            yield MockDesktop(address, log)


def answers(address: str) -> bool:
    """Whether a desktop is on that bus."""
    name = "org.freedesktop.Notifications"
    argv = ["gdbus", "call", "--address", address, "--dest", name]
    argv += ["--object-path", "/org/freedesktop/Notifications"]
    argv += ["--method", f"{name}.GetCapabilities"]
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0
